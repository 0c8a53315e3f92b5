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
    let originals: Vec<String> =
        files.iter().flat_map(|file| blocks(&std::fs::read_to_string(file).unwrap())).collect();
    let printed = blocks(&same);
    assert_eq!((originals.len(), printed.len()), (42, 42));
    for (at, (original, printed)) in originals.iter().zip(&printed).enumerate() {
        // The trailing blanks of the one SGLang report were lost before it got here.
        let stripped: Vec<&str> = printed.lines().map(str::trim_end).collect();
        let is_stripped = original.contains("\nBackend: ");
        let expected = if is_stripped { stripped.join("\n") } else { printed.clone() };
        assert_eq!(*original, expected, "block {at}");
    }
    assert_eq!(originals.iter().filter(|block| block.contains("\nBackend: ")).count(), 3);
}

/// The blocks of a text, each from its header to its footer, byte for byte.
fn blocks(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut block: Option<Vec<&str>> = None;
    for line in text.split('\n') {
        if line.contains(" Serving Benchmark Result ") {
            block = Some(Vec::new());
        }
        if let Some(lines) = &mut block {
            lines.push(line);
        }
        if line.len() == 50 && line.bytes().all(|byte| byte == b'=') {
            found.extend(block.take().map(|lines| lines.join("\n")));
        }
    }
    found
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
