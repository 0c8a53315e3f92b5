//! Folders and records that cannot be written or read.

use std::path::Path;

use super::case::Case;

const SMALL: &str = "bench --base-url {url} --num-prompts 3 --max-concurrency 1 \
     --random-input-len 8 --random-output-len 4 --tokenizer cl100k --no-scrape --run-dir r";

fn file(folder: &Path) {
    std::fs::write(folder.join("file"), "x").unwrap();
}

/// Replaces a file of the run.
fn replace(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join("r").join(name), text).unwrap();
    std::fs::remove_file(folder.join("r/summary.json")).unwrap();
}

fn shorten(path: &Path) {
    let bytes = std::fs::read(path).unwrap();
    std::fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
}

pub(super) const CASES: &[Case] = &[
    Case::command("a run folder below a file", "bench --base-url http://127.0.0.1:1 --model m --run-dir file/run")
        .prepare(file)
        .exit(6)
        .says(&["cannot write", "is a file, not a folder"]),
    Case::command("a result folder below a file", "bench --base-url http://127.0.0.1:1 --model m --no-run-dir --save-result --result-dir file/out")
        .prepare(file)
        .exit(6)
        .says(&["cannot write", "file"]),
    Case::command("SGLang's result file below a file", "bench --base-url http://127.0.0.1:1 --model m --no-run-dir --output-file file/out.jsonl")
        .prepare(file)
        .exit(6)
        .says(&["cannot write", "file"]),
    Case::command("no folder for temporary files", "bench --base-url http://127.0.0.1:1 --model m --no-run-dir")
        .shell("export TMPDIR=missing")
        .exit(6)
        .says(&["cannot make a temporary folder", "set TMPDIR"]),
    Case::command("a run folder that does not exist", "report missing").says(&["missing"]),
    Case::command("a folder without a run", "report empty")
        .prepare(|folder| std::fs::create_dir(folder.join("empty")).unwrap())
        .says(&["empty"]),
    Case::command("a plan.json that is cut", "report r")
        .before(&["bench --sim --num-prompts 3 --random-input-len 8 --random-output-len 4 --run-dir r"])
        .prepare(|folder| replace(folder, "plan.json", "{\"name\": ["))
        .says(&["plan.json"]),
    Case::command("an end.json that is cut", "report r")
        .before(&["bench --sim --num-prompts 3 --random-input-len 8 --random-output-len 4 --run-dir r"])
        .prepare(|folder| replace(folder, "end.json", "{\"stop\": "))
        .says(&["end.json"]),
    Case::command("a record without its end", "report r")
        .before(&["bench --sim --num-prompts 3 --random-input-len 8 --random-output-len 4 --run-dir r"])
        .prepare(|folder| {
            std::fs::remove_file(folder.join("r/end.json")).unwrap();
            std::fs::remove_file(folder.join("r/summary.json")).unwrap();
        })
        .outcome("what the record holds")
        .exit(0)
        .says(&["killed"]),
    Case::sim("a run folder that holds another run", &[])
        .before(&[SMALL])
        .exit(6)
        .counts(3, 0)
        .says(&["it already holds a run", "--overwrite"]),
    Case::sim("the same with `--overwrite`", &[])
        .before(&[SMALL])
        .flags("--overwrite")
        .counts(3, 0)
        .says(&["3 of 3 succeeded"]),
    Case::sim("the disk is full when the page is written", &[])
        .before(&[SMALL])
        .line("report r --html /dev/full")
        .exit(6)
        .counts(3, 0)
        .says(&["cannot write `/dev/full`"]),
    Case::sim("a folder for the page that does not exist", &[])
        .before(&[SMALL])
        .line("report r --html missing/page.html")
        .exit(6)
        .counts(3, 0)
        .says(&["cannot write `missing/page.html`"]),
    Case::sim("a folder for the rows that does not exist", &[])
        .before(&[SMALL])
        .line("report r --parquet missing/rows.parquet")
        .exit(6)
        .counts(3, 0)
        .says(&["cannot write `missing/rows.parquet`"]),
    Case::sim("a result file in a folder that is a file", &[])
        .prepare(file)
        .flags("--save-result --result-dir file")
        .exit(6)
        .says(&["cannot write"]),
    Case::sim("a record that is cut", &[])
        .before(&[SMALL])
        .prepare(|folder| shorten(&folder.join("r/requests.arrows")))
        .line("report r")
        .counts(3, 0)
        .says(&["r/requests.arrows: the file was cut"]),
    Case::sim("a record of other bytes", &[])
        .before(&[SMALL])
        .prepare(|folder| std::fs::write(folder.join("r/requests.arrows"), "no record").unwrap())
        .line("report r")
        .counts(3, 0)
        .says(&["cannot read batch 0 of r/requests.arrows"]),
    Case::sim("a record that is gone", &[])
        .before(&[SMALL])
        .prepare(|folder| std::fs::remove_file(folder.join("r/requests.arrows")).unwrap())
        .line("report r")
        .counts(3, 0)
        .exit(2)
        .says(&["requests.arrows"]),
    Case::sim("a disk that fills up during the run", &[])
        .shell("ulimit -f 130")
        .flags("--num-prompts 4000 --max-concurrency 64 --overwrite")
        .outcome("figures on the terminal")
        .exit(6)
        .says(&["cannot write r/requests.arrows", "never sent"]),
    Case::sim("the run folder is deleted during the run", &[])
        .shell("{ (while [ ! -s r/starts.arrows ]; do sleep 0.02; done; rm -rf r) & }")
        .flags("--num-prompts 60 --request-rate 15")
        .outcome("figures on the terminal")
        .exit(6)
        .says(&["cannot write", "Successful requests"]),
];
