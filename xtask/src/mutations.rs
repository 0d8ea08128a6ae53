//! Faults in the CPU backend's source: each is planted in a copy of the workspace, and the op table
//! must fail.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// One change of the source.
struct Mutation {
    /// The path below `crates/backend-cpu/src`.
    file: &'static str,
    /// The original text, which occurs exactly once.
    from: &'static str,
    /// Its replacement.
    to: &'static str,
    /// Names of tests that should detect it. If they do not, the whole table is run.
    ops: &'static str,
}

const MUTATIONS: &[Mutation] = &[
    // Gradients of the wrong size, the first two of which a well-known test harness failed to
    // detect.
    Mutation {
        file: "ops/unary.rs",
        from: "each!(s, dy => dx, |y, d| if y > T::ZERO { d } else { T::ZERO });",
        to: "each!(s, dy => dx, |y, d| if y > T::ZERO { T::real(5.0).mul(d) } else { T::ZERO });",
        ops: "relu::",
    },
    Mutation {
        file: "ops/softmax.rs",
        from: "*dy = y * (*dy - sum);",
        to: "*dy = T::ZERO * (y - sum);",
        ops: "softmax::",
    },
    Mutation {
        file: "ops/unary.rs",
        from: "each!(s, dy => dx, |y, d| y.mul(T::ONE.sub(y)).mul(d));",
        to: "each!(s, dy => dx, |y, d| y.mul(d));",
        ops: "sigmoid::",
    },
    Mutation {
        file: "ops/unary.rs",
        from: "const GELU_CUBIC: f64 = 0.044_715;",
        to: "const GELU_CUBIC: f64 = 0.044_725;",
        ops: "gelu",
    },
    // Softmax and losses.
    Mutation {
        file: "ops/softmax.rs",
        from: "*x = (*x - max).exp();",
        to: "*x = x.exp();",
        ops: "softmax::",
    },
    Mutation {
        file: "ops/softmax.rs",
        from: "*dy -= y.exp() * sum;",
        to: "*dy -= sum;",
        ops: "log_softmax::",
    },
    Mutation {
        file: "ops/loss.rs",
        from: "let mut loss = log_sum - smoothing.target * (x[target] - base);",
        to: "let mut loss = log_sum - (x[target] - base);",
        ops: "cross_entropy",
    },
    Mutation {
        file: "ops/loss.rs",
        from: "let Some(target) = target else { return x.fill(T::ZERO) };",
        to: "let Some(target) = target else { return };",
        ops: "cross_entropy",
    },
    // Normalizations.
    Mutation {
        file: "ops/norm.rs",
        from: "(mean, T::ONE / (variance + eps).sqrt())",
        to: "(mean, T::ONE / (variance + eps + eps).sqrt())",
        ops: "layer_norm::",
    },
    Mutation {
        file: "ops/norm.rs",
        from: "*sum += dy * ((x - mean) * rstd);",
        to: "*sum = dy * ((x - mean) * rstd);",
        ops: "_norm::",
    },
    Mutation {
        file: "ops/norm.rs",
        from: "let mean_g = if centered { sum_g / width } else { T::ZERO };",
        to: "let mean_g = if centered { sum_g } else { T::ZERO };",
        ops: "layer_norm::",
    },
    // Products.
    Mutation {
        file: "ops/matmul.rs",
        from: "*sum = sum.add(factor.mul(other));",
        to: "*sum = factor.mul(other);",
        ops: "matmul::",
    },
    Mutation {
        file: "ops/matmul.rs",
        from: "let b = self.matrix(&self.b, batch).submatrix(0, column);",
        to: "let b = self.matrix(&self.b, 0).submatrix(0, column);",
        ops: "matmul::",
    },
    Mutation {
        file: "ops/matmul.rs",
        from: "let alpha = T::from_number(Scalar::Float(self.epilogue.alpha));",
        to: "let alpha = T::from_number(Scalar::Float(1.0));",
        ops: "matmul",
    },
    // Indices.
    Mutation {
        file: "ops/index.rs",
        from: "!(0..size as i64).contains(&index.value())",
        to: "!(0..=size as i64).contains(&index.value())",
        ops: "gather::",
    },
    Mutation {
        file: "ops/index.rs",
        from: "target.write(combine(target.read(), sources[done + i]));",
        to: "target.write(combine(sources[done + i], sources[done + i]));",
        ops: "scatter",
    },
    Mutation {
        file: "ops/sort.rs",
        from: "true => pairs.sort_by(|left, right| order(right.0, left.0)),",
        to: "true => pairs.sort_by(|left, right| order(right.0, left.0).then(right.1.cmp(&left.1))),",
        ops: "sort::",
    },
    // Reductions.
    Mutation {
        file: "ops/reduce/reducers.rs",
        from: "IndexedValue { value: block[index], index: first + index }",
        to: "IndexedValue { value: block[index], index }",
        ops: "argm",
    },
    Mutation {
        file: "ops/reduce/cumulative.rs",
        from: "i32 => i32, |sum, x| sum.wrapping_add(x);",
        to: "i32 => i32, |sum, x| sum.wrapping_sub(x);",
        ops: "cumsum::",
    },
    Mutation {
        file: "lanes.rs",
        from: "        for (lane, &value) in lanes.iter_mut().zip(rest) {\n            *lane += term(value);\n        }\n        add(&mut total, &lanes);",
        to: "        for (lane, &value) in lanes.iter_mut().zip(rest).skip(1) {\n            *lane += term(value);\n        }\n        add(&mut total, &lanes);",
        ops: "softmax::",
    },
    // Windows.
    Mutation { file: "ops/pool.rs", from: "value > best ||", to: "value >= best ||", ops: "max_pool2d" },
    Mutation {
        file: "ops/pool.rs",
        from: "false => vertical.taps(row).len() * horizontal.taps(column).len(),",
        to: "false => vertical.kernel * horizontal.kernel,",
        ops: "avg_pool2d",
    },
    Mutation {
        file: "ops/conv/columns.rs",
        from: "let first = at - positions.start + (columns.start - column);",
        to: "let first = at - positions.start;",
        ops: "im2col::",
    },
    // Attention.
    Mutation {
        file: "ops/attention.rs",
        from: "head / self.heads * self.kv_heads + head % self.heads / self.group()",
        to: "head / self.heads * self.kv_heads + head % self.kv_heads",
        ops: "attention",
    },
    Mutation {
        file: "ops/attention.rs",
        from: "position.saturating_sub(window).saturating_add(1)",
        to: "position.saturating_sub(window)",
        ops: "attention",
    },
    Mutation {
        file: "ops/attention/grad.rs",
        from: "*ds = p * (*ds - delta);",
        to: "*ds = p * *ds;",
        ops: "attention",
    },
    // Steps and random numbers.
    Mutation {
        file: "ops/step.rs",
        from: "let denominator = v.sqrt() / step.correction2 + step.eps;",
        to: "let denominator = v.sqrt() + step.eps;",
        ops: "adam_step::",
    },
    Mutation {
        file: "ops/step.rs",
        from: "{ g + momentum * new } else { new }",
        to: "{ g + momentum * g } else { new }",
        ops: "sgd_step::",
    },
    Mutation {
        file: "ops/reduce/multi_tensor.rs",
        from: "if !sum.is_inexact_sum_of_squares() {",
        to: "if true {",
        ops: "multi_tensor_norm::",
    },
    Mutation {
        file: "ops/dropout.rs",
        from: "*value = if word >> 8 >= self.threshold { *value * self.scale } else { T::ZERO };",
        to: "*value = if word >> 8 >= self.threshold { *value } else { T::ZERO };",
        ops: "dropout",
    },
    Mutation {
        file: "ops/random.rs",
        from: "let at = pair % 2 * 2;",
        to: "let at = pair % 2;",
        ops: "normal",
    },
    // Faults that are visible only beyond the first block, tile or piece, or with infinite values.
    Mutation { file: "ops/sort.rs", from: "zip(start as i32..)", to: "zip(0i32..)", ops: "sort::" },
    Mutation {
        file: "ops/matmul.rs",
        from: "&self.bias[start[1]..start[1] + sums.len()]",
        to: "&self.bias[..sums.len()]",
        ops: "linear::",
    },
    Mutation { file: "ops/index.rs", from: "piece % tiles * BLOCK", to: "piece % tiles", ops: "scatter" },
    Mutation {
        file: "ops/softmax.rs",
        from: "for_lanes(panel, |lane, x| *x = (*x - max[lane]).exp());",
        to: "for_lanes(panel, |_, x| *x = (*x - max[0]).exp());",
        ops: "softmax::",
    },
    Mutation {
        file: "ops/step.rs",
        from: "if decay == T::ZERO { clipped } else { clipped + decay * parameter }",
        to: "clipped + decay * parameter",
        ops: "_step::",
    },
    Mutation { file: "ops/attention.rs", from: "*sum *= rescale;", to: "", ops: "attention::" },
    Mutation {
        file: "ops/dropout.rs",
        from: "let (first, skipped) = (start / 4, start % 4);",
        to: "let (first, skipped) = (start % 8192 / 4, start % 4);",
        ops: "dropout::",
    },
    Mutation {
        file: "ops/conv.rs",
        from: "{\n            for (out, &bias) in\n                bias[group",
        to: "&& positions.start == 0 {\n            for (out, &bias) in\n                bias[group",
        ops: "conv2d::",
    },
    Mutation {
        file: "ops/loss.rs",
        from: "if max.is_finite() { max } else { T::ZERO }",
        to: "max",
        ops: "cross_entropy::",
    },
    // Memory.
    Mutation {
        file: "../../core/src/geometry/axes.rs",
        from: "(0..N).all(is_even)",
        to: "(0..1).all(is_even)",
        ops: "add::",
    },
    Mutation {
        file: "ops/assemble.rs",
        from: "slabs.push(range(&inside, axis, before + size, total)?);",
        to: "slabs.push(range(&inside, axis, before + size, total - usize::from(total > before + size))?);",
        ops: "pad::",
    },
];

/// The time limit of a table run: a longer run has an endless loop.
const TIMEOUT: Duration = Duration::from_secs(1200);

/// Runs the mutations that `only` selects; with `check`, only checks whether they can be applied.
pub fn run(root: &Path, only: Option<&str>, check: bool) -> Result<(), String> {
    let is_selected = |mutation: &&Mutation| {
        only.is_none_or(|text| {
            [mutation.file, mutation.from, mutation.ops].iter().any(|part| part.contains(text))
        })
    };
    let mutations: Vec<&Mutation> = MUTATIONS.iter().filter(is_selected).collect();
    if mutations.is_empty() {
        return Err("no mutation was picked".into());
    }
    for mutation in &mutations {
        mutation.applied(root)?;
    }
    if check {
        println!("{} mutations fit the source", mutations.len());
        return Ok(());
    }
    let copy = Copy::of(root)?;
    println!("the table without a mutation ..");
    if let Some(red) = copy.first_failure("")? {
        return Err(format!("the table is red before anything was changed: {red}"));
    }
    let mut survivors = Vec::new();
    for (number, mutation) in mutations.iter().enumerate() {
        let verdict = copy.try_out(mutation)?;
        let line = format!("{} `{}`", mutation.file, mutation.from.lines().next().unwrap_or_default().trim());
        match verdict {
            Some(test) => println!("{:>2}/{} noticed by {test}: {line}", number + 1, mutations.len()),
            None => {
                println!("{:>2}/{} SURVIVED: {line}", number + 1, mutations.len());
                survivors.push(line);
            }
        }
    }
    match survivors.len() {
        0 => Ok(()),
        count => Err(format!("{count} of {} mutations survived:\n{}", mutations.len(), survivors.join("\n"))),
    }
}

impl Mutation {
    fn path(&self, root: &Path) -> PathBuf {
        root.join("crates/backend-cpu/src").join(self.file)
    }

    /// Returns the mutated source.
    fn applied(&self, root: &Path) -> Result<String, String> {
        let path = self.path(root);
        let source =
            std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        match source.matches(self.from).count() {
            1 => Ok(source.replacen(self.from, self.to, 1)),
            count => Err(format!("{}: found {count} times, expected once: {}", path.display(), self.from)),
        }
    }
}

/// A copy of the workspace with a separate target folder.
struct Copy {
    workspace: PathBuf,
    target: PathBuf,
}

impl Copy {
    fn of(root: &Path) -> Result<Copy, String> {
        let base = root.join("target/mutations");
        let (workspace, target) = (base.join("workspace"), base.join("build"));
        let _ = std::fs::remove_dir_all(&workspace);
        copy_tree(root, &workspace).map_err(|error| format!("{}: {error}", workspace.display()))?;
        Ok(Copy { workspace, target })
    }

    /// Returns the test that detects the mutation, if any does.
    fn try_out(&self, mutation: &Mutation) -> Result<Option<String>, String> {
        let path = mutation.path(&self.workspace);
        let write =
            |text: &str| std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()));
        let honest =
            std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        write(&mutation.applied(&self.workspace)?)?;
        let noticed = match self.first_failure(mutation.ops) {
            Ok(None) => self.first_failure(""),
            other => other,
        };
        write(&honest)?;
        noticed
    }

    /// Builds the table and runs the tests whose names contain `ops`; returns the first that fails.
    fn first_failure(&self, ops: &str) -> Result<Option<String>, String> {
        let mut cargo = crate::cargo::cargo();
        cargo.current_dir(&self.workspace).env("CARGO_TARGET_DIR", &self.target).stdin(Stdio::null());
        // Each mutation is compiled once and runs for seconds: most of the time is compilation.
        cargo.args(["build", "--quiet", "--package", "ternion-testing", "--example", "ops"]);
        cargo.args(["--config", "profile.dev.package.ternion-cpu.opt-level=0"]);
        let built = cargo.output().map_err(|error| format!("cargo: {error}"))?;
        if !built.status.success() {
            return Err(format!("a mutation does not compile:\n{}", String::from_utf8_lossy(&built.stderr)));
        }
        let log = self.target.join("table.log");
        let output = std::fs::File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        let mut table = Command::new(self.target.join("debug/examples/ops"));
        table.current_dir(&self.workspace).stdout(output).stderr(Stdio::null()).stdin(Stdio::null());
        if !ops.is_empty() {
            table.arg(ops);
        }
        let mut child = table.spawn().map_err(|error| format!("the table: {error}"))?;
        let started = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().map_err(|error| format!("the table: {error}"))? {
                break status;
            }
            if started.elapsed() > TIMEOUT {
                let _ = child.kill();
                let _ = child.wait();
                return Ok(Some("an endless run".into()));
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        if status.success() {
            return Ok(None);
        }
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let failed = text.lines().find(|line| line.starts_with("test ") && line.ends_with("FAILED"));
        let name = failed.and_then(|line| line.split_whitespace().nth(1));
        Ok(Some(name.map_or_else(|| format!("a crash ({status})"), str::to_string)))
    }
}

/// Copies the targets of links, too: crates have links to the folders of kernels and shaders.
fn copy_tree(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == "target" || name == ".git" {
            continue;
        }
        let target = to.join(&name);
        match std::fs::metadata(entry.path())?.is_dir() {
            true => copy_tree(&entry.path(), &target)?,
            false => std::fs::copy(entry.path(), &target).map(|_| ())?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn folders_behind_links_are_copied() {
        let root = std::env::temp_dir().join(format!("ternion-copy-tree-{}", std::process::id()));
        let (from, to) = (root.join("from"), root.join("to"));
        std::fs::create_dir_all(from.join("kernels")).expect("a folder");
        std::fs::write(from.join("kernels/a.cu"), "kernel").expect("a file");
        std::os::unix::fs::symlink("kernels", from.join("link")).expect("a link");
        copy_tree(&from, &to).expect("a copy");
        assert_eq!(std::fs::read_to_string(to.join("link/a.cu")).expect("the file"), "kernel");
        std::fs::remove_dir_all(&root).expect("removed");
    }

    #[test]
    fn every_mutation_fits_the_source() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let misfits: Vec<String> =
            MUTATIONS.iter().filter_map(|mutation| mutation.applied(&root).err()).collect();
        assert!(misfits.is_empty(), "{}", misfits.join("\n"));
        assert!(MUTATIONS.len() >= 20);
    }
}
