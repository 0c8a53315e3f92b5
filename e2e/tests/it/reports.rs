//! Reports that other tools printed.

use crate::program::{root, run};

#[test]
fn printed_reports_become_a_table_and_come_back_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let seeds = root().join("fixtures/seeds");
    let mut files: Vec<String> = std::fs::read_dir(seeds)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .map(|path| path.display().to_string())
        .collect();
    files.sort();
    let line = format!("report {}", files.join(" "));
    let rows = run(folder.path(), &format!("{line} --format csv")).succeeded().stdout;
    assert_eq!(rows.lines().count(), 1 + 42);
    let same = run(folder.path(), &format!("{line} --layout same")).succeeded().stdout;
    let originals: String =
        files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    for (at, line) in same.lines().enumerate() {
        assert!(originals.contains(line), "line {at} of the output is new: {line}");
    }
    assert_eq!(same.matches("Serving Benchmark Result").count(), 42);
}

#[test]
fn the_doctor_s_exit_code_tells_whether_a_report_contradicts_itself() {
    let folder = tempfile::tempdir().unwrap();
    let seeds = root().join("fixtures/seeds");
    let row = |name: &str, code: i32| {
        let path = seeds.join(name);
        let ended = run(folder.path(), &format!("doctor {}", path.display()));
        assert_eq!(ended.code, Some(code), "{name}: {}", ended.stdout);
    };
    row("000_659e43dd1329acd2.txt", 0);
    row("004_8163290e84c3957c.txt", 1);
}
