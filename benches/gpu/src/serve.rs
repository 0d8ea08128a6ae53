//! Cases measured on request: `benches/peers/compare.py` alternates requests to this program and to
//! PyTorch's, so that both run at the same clocks.

use serde_json::json;
use std::io::{self, BufRead, Write};

/// How many measurements were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// The number of requests for cases that exist.
    pub measured: usize,
    /// The number of these cases that could not be measured.
    pub failed: usize,
}

/// Prints `{"cases": [NAME..]}`. Then reads the name of a case from each line, calls `measure`,
/// which prints the case's lines, and prints `{"done": NAME}`, until the requests end. `measure`
/// gets the index of the case and returns whether it succeeded; if not, the last line contains
/// `"failed": true`. A name must be the full name of a case; if it is not among `names`, that line
/// contains `"unknown": true`.
///
/// # Errors
/// Requests cannot be read, or answers cannot be written.
pub fn serve(
    requests: impl BufRead,
    mut answers: impl Write,
    names: &[&str],
    mut measure: impl FnMut(usize) -> bool,
) -> io::Result<Served> {
    answer(&mut answers, &json!({"cases": names}))?;
    let mut served = Served::default();
    for request in requests.lines() {
        let request = request?;
        let name = request.trim();
        if name.is_empty() {
            continue;
        }
        let mut done = json!({"done": name});
        match names.iter().position(|known| *known == name) {
            None => done["unknown"] = true.into(),
            Some(index) => {
                served.measured += 1;
                if !measure(index) {
                    served.failed += 1;
                    done["failed"] = true.into();
                }
            }
        }
        answer(&mut answers, &done)?;
    }
    Ok(served)
}

/// Prints a line and flushes it, because the requesting program waits for it.
fn answer(answers: &mut impl Write, line: &serde_json::Value) -> io::Result<()> {
    writeln!(answers, "{line}")?;
    answers.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 3] = ["gemm/bf16/nn/1000", "gemm/bf16/nn/1000x1000x1000", "gemm/bf16/nn/2048"];

    /// Returns what was measured, what was answered, and the counts.
    fn served(requests: &[u8], fails: &str) -> (Vec<&'static str>, Vec<serde_json::Value>, Served) {
        let (mut measured, mut answers) = (Vec::new(), Vec::new());
        let measure = |index: usize| {
            measured.push(NAMES[index]);
            NAMES[index] != fails
        };
        let counts = serve(requests, &mut answers, &NAMES, measure).expect("answers");
        let text = String::from_utf8(answers).expect("text");
        let lines = text.lines().map(|line| serde_json::from_str(line).expect("a JSON object")).collect();
        (measured, lines, counts)
    }

    #[test]
    fn names_are_those_of_whole_cases() {
        let (measured, answers, counts) =
            served(b"gemm/bf16/nn/1000\ngemm/bf16/nn/1\n\n gemm/bf16/nn/2048 \ngemm/bf16/nn/1000", "");
        assert_eq!(measured, ["gemm/bf16/nn/1000", "gemm/bf16/nn/2048", "gemm/bf16/nn/1000"]);
        assert_eq!(answers[0], json!({"cases": NAMES}));
        assert_eq!(answers[1], json!({"done": "gemm/bf16/nn/1000"}));
        assert_eq!(answers[2], json!({"done": "gemm/bf16/nn/1", "unknown": true}));
        assert_eq!(answers[3], json!({"done": "gemm/bf16/nn/2048"}));
        assert_eq!((answers.len(), counts), (5, Served { measured: 3, failed: 0 }));
    }

    #[test]
    fn a_case_that_fails_is_reported_and_the_next_is_measured() {
        let (measured, answers, counts) =
            served(b"gemm/bf16/nn/2048\ngemm/bf16/nn/1000\n", "gemm/bf16/nn/2048");
        assert_eq!(measured.len(), 2);
        assert_eq!(answers[1], json!({"done": "gemm/bf16/nn/2048", "failed": true}));
        assert_eq!(answers[2], json!({"done": "gemm/bf16/nn/1000"}));
        assert_eq!(counts, Served { measured: 2, failed: 1 });
    }

    #[test]
    fn requests_that_cannot_be_read_end_it() {
        let served = serve(&b"gemm\xff\n"[..], Vec::new(), &NAMES, |_| true);
        assert_eq!(served.expect_err("no text").kind(), io::ErrorKind::InvalidData);
    }
}
