//! Computes ratios from the results of one run, and writes them between the markers of a document.

use clap::Parser;
use serde_json::Value;
use std::path::{Path, PathBuf};

#[derive(Parser)]
struct Arguments {
    /// Folder with the JSON of NumPy and the MNIST programs.
    #[arg(long)]
    results: PathBuf,
    /// Criterion's folder.
    #[arg(long)]
    criterion: PathBuf,
    /// The document.
    #[arg(long)]
    into: PathBuf,
}

type Failure = Box<dyn std::error::Error>;

struct Row {
    what: String,
    ours: f64,
    other: f64,
    limit: f64,
}

fn main() -> Result<(), Failure> {
    let arguments = Arguments::parse();
    let time = |case: &str| median(&arguments.criterion, case);
    let numpy = json(&arguments.results.join("numpy.json"))?;
    let numpy_matmul = numpy["matmul_1024_seconds"].as_f64().ok_or("numpy.json has no time")?;
    let numpy_version = numpy["numpy"].as_str().unwrap_or("?");
    let row = |what: &str, ours: f64, other: f64, limit: f64| Row { what: what.into(), ours, other, limit };
    let mut rows = vec![
        row("add of two 1-element tensors, over candle", time("add_1/ternion")?, time("add_1/candle")?, 0.8),
        row("the same recorded for gradients, over unrecorded", time("add_1/ternion_recorded")?, time("add_1/ternion")?, 1.6),
        row(&format!("matmul f32 1024x1024x1024, over NumPy {numpy_version}"), time("matmul_1024/ternion")?, numpy_matmul, 1.0 / 0.9),
    ];
    let copy = time("large/copy")?;
    // The minimum number of bytes moved, relative to what the copy moves (one read and one write of
    // the tensor).
    for (case, share, limit) in [
        ("add", 1.5, 1.3),
        ("relu", 1.0, 1.3),
        ("sum", 0.5, 1.3),
        ("softmax", 1.0, 2.5),
        ("softmax_backward", 1.5, 2.5),
        ("gelu", 1.0, 2.5),
        ("gelu_backward", 1.5, 2.5),
        ("gelu_tanh", 1.0, 2.5),
        ("gelu_tanh_backward", 1.5, 2.5),
        ("layer_norm", 1.0, 2.5),
        ("layer_norm_backward", 1.5, 2.5),
    ] {
        rows.push(row(&format!("{case} f32 8192 x 1024, over a copy of the same bytes"), time(&format!("large/{case}"))?, copy * share, limit));
    }
    for (dtype, width) in ["f32", "bf16"].iter().flat_map(|dtype| [64, 128, 192, 256].map(|width| (dtype, width))) {
        for (pass, name) in [("forward", ""), ("backward", "_backward")] {
            let time = |who: &str| time(&format!("attention/{dtype}_{width}{name}_{who}"));
            let what = format!("attention {dtype} of 8 heads of {width}, 512 tokens, {pass}, over its composition");
            rows.push(row(&what, time("ternion")?, time("composed")?, 1.05));
        }
    }
    rows.push(row("MNIST mlp epoch, over candle", epoch(&arguments.results, "ternion")?, epoch(&arguments.results, "candle")?, 0.8));
    write(&arguments.into, &table(&rows))
}

fn median(criterion: &Path, case: &str) -> Result<f64, Failure> {
    let estimates = json(&criterion.join(case).join("new/estimates.json"))?;
    Ok(estimates["median"]["point_estimate"].as_f64().ok_or("no median")? / 1e9)
}

fn epoch(results: &Path, who: &str) -> Result<f64, Failure> {
    let mut seconds = Vec::new();
    for round in 1..=3 {
        let result = json(&results.join(format!("{who}_mnist_{round}.json")))?;
        seconds.push(result["epoch_seconds"].as_f64().ok_or("no time")?);
    }
    seconds.sort_by(f64::total_cmp);
    Ok(seconds[1])
}

fn json(path: &Path) -> Result<Value, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(serde_json::from_str(&text)?)
}

fn table(rows: &[Row]) -> String {
    let mut text = format!("\n{}\n\n| case | Ternion | other | ratio | goal |\n|---|---:|---:|---:|---:|\n", machine());
    for row in rows {
        let ratio = row.ours / row.other;
        let verdict = if ratio <= row.limit { "" } else { " (missed)" };
        text += &format!("| {} | {} | {} | {ratio:.2} | {:.2}{verdict} |\n", row.what, duration(row.ours), duration(row.other), row.limit);
    }
    text + "\n"
}

fn machine() -> String {
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processor.lines().find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1)).unwrap_or("unknown CPU");
    let threads = std::env::var("RAYON_NUM_THREADS").unwrap_or_else(|_| "all".into());
    let commit = std::process::Command::new("git").args(["rev-parse", "--short", "HEAD"]).output();
    let commit = commit.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_string()).unwrap_or_default();
    format!("{model}, {threads} threads, commit {commit}, medians.")
}

fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 1e-6 => format!("{:.1} ns", s * 1e9),
        s if s < 1e-3 => format!("{:.1} us", s * 1e6),
        s if s < 1.0 => format!("{:.2} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}

fn write(document: &Path, table: &str) -> Result<(), Failure> {
    let (begin, end) = ("<!-- table:cpu -->", "<!-- end:cpu -->");
    let text = std::fs::read_to_string(document)?;
    let start = text.find(begin).ok_or("the document has no begin marker")? + begin.len();
    let stop = text.find(end).ok_or("the document has no end marker")?;
    std::fs::write(document, format!("{}{table}{}", &text[..start], &text[stop..]))?;
    print!("{table}");
    Ok(())
}
