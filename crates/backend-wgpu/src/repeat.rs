//! A preprocessor for WGSL. It unrolls loops, because WGSL has no attribute for this, and drivers
//! unroll only short loops. It also inlines blocks into functions, where drivers need code without
//! calls.
//!
//! The lines from `#repeat name count` to its `#end` are repeated with `name` 0, 1 and so on. In
//! these lines, `#{expression}` is replaced with a number. An expression consists of names,
//! numbers, and the integer operators `+ - * / %`. The operators `* / %` have higher precedence.
//!
//! The lines from `#block name` to its `#end` are removed, and inserted at each later line `#inline
//! name`, in a function or in another block.

/// A name of a `#repeat`, and its value.
pub(crate) type Name<'a> = (&'a str, usize);

/// A name of a `#block`, and its lines.
type Block<'a> = (&'a str, &'a [&'a str]);

/// Returns the source with its repeated lines and its blocks expanded. `names` can be used in every
/// expression.
pub(crate) fn unroll(text: &str, names: &[Name<'_>]) -> String {
    if !text.contains("#repeat") && !text.contains("#block") {
        return text.into();
    }
    let lines: Vec<&str> = text.lines().collect();
    let mut output = String::with_capacity(4 * text.len());
    write(&lines, &mut Vec::new(), &mut names.to_vec(), &mut output);
    output
}

fn write<'a>(
    lines: &'a [&'a str],
    blocks: &mut Vec<Block<'a>>,
    names: &mut Vec<Name<'a>>,
    output: &mut String,
) {
    let mut next = 0;
    while let Some(line) = lines.get(next) {
        next += 1;
        let (directive, arguments) = line.trim().split_once(' ').unwrap_or_default();
        match directive {
            "#repeat" => {
                let (name, count) = arguments.split_once(' ').expect("#repeat has a name and a count");
                let body = body(&lines[next..]);
                for number in 0..value(count, names) {
                    names.push((name, number));
                    write(body, blocks, names, output);
                    names.pop();
                }
                next += body.len() + 1;
            }
            "#block" => {
                let body = body(&lines[next..]);
                blocks.push((arguments, body));
                next += body.len() + 1;
            }
            "#inline" => {
                let block = blocks.iter().rposition(|(name, _)| *name == arguments);
                let block = block.unwrap_or_else(|| panic!("no #block {arguments} above its #inline"));
                // A block can inline only blocks above it, so it never inlines itself.
                write(blocks[block].1, &mut blocks[..block].to_vec(), names, output);
            }
            _ => write_line(line, names, output),
        }
    }
}

/// Returns the lines before the `#end` that matches the directive in front of `lines`.
fn body<'a>(lines: &'a [&'a str]) -> &'a [&'a str] {
    let mut depth = 0usize;
    let ends = |line: &&str| match line.trim() {
        "#end" if depth == 0 => true,
        "#end" => {
            depth -= 1;
            false
        }
        other => {
            depth += usize::from(other.starts_with("#repeat ") || other.starts_with("#block "));
            false
        }
    };
    &lines[..lines.iter().position(ends).expect("#repeat and #block have an #end")]
}

fn write_line(line: &str, names: &[Name<'_>], output: &mut String) {
    let mut parts = line.split("#{");
    output.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let (expression, rest) = part.split_once('}').expect("#{ has a }");
        output.push_str(&value(expression, names).to_string());
        output.push_str(rest);
    }
    output.push('\n');
}

/// Evaluates a sum of products of names and numbers.
fn value(expression: &str, names: &[Name<'_>]) -> usize {
    fold(expression, ['+', '-', '-'], |term| {
        fold(term, ['*', '/', '%'], |word| {
            let named = names.iter().rev().find(|(name, _)| *name == word);
            named.map_or_else(
                || word.parse().unwrap_or_else(|_| panic!("{word} in #{{{expression}}} is nothing")),
                |&(_, number)| number,
            )
        })
    })
}

/// Splits an expression at these operators and combines the operands from left to right.
fn fold(text: &str, operators: [char; 3], operand: impl Fn(&str) -> usize) -> usize {
    let (mut output, mut operator) = (0, '+');
    for term in text.split_inclusive(operators) {
        let number = operand(term.strip_suffix(operators).unwrap_or(term).trim());
        output = match operator {
            '+' => output + number,
            '-' => output - number,
            '*' => output * number,
            '/' => output / number,
            _ => output % number,
        };
        operator = term.chars().next_back().unwrap_or('+');
    }
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unroll(text: &str) -> String {
        super::unroll(text, &[("MANY", 2)])
    }

    #[test]
    fn lines_are_repeated() {
        assert_eq!(unroll("a\nb#{1}"), "a\nb#{1}", "nothing is repeated here");
        assert_eq!(
            unroll("a\n#repeat i 3\n  x_#{i} = #{i*4+1}u;\n#end\nb"),
            "a\n  x_0 = 1u;\n  x_1 = 5u;\n  x_2 = 9u;\nb\n"
        );
        assert_eq!(unroll("#repeat i 2\n#repeat j i+1\n#{i}#{j}\n#end\n-\n#end\n"), "00\n-\n10\n11\n-\n");
        assert_eq!(unroll("#repeat i MANY+1\n#{i}\n#end\n"), "0\n1\n2\n");
        assert_eq!(unroll("#repeat i 0\na\n#end\nb\n"), "b\n");
    }

    #[test]
    fn blocks_are_inlined_where_requested() {
        let text = "#block add\n  a += #{i};\n#end\nf {\n#repeat i 2\n#inline add\n#end\n}\n";
        assert_eq!(unroll(text), "f {\n  a += 0;\n  a += 1;\n}\n");
        let nested = "#block one\n1\n#end\n#block two\n#repeat i 2\n#inline one\n#end\n2\n#end\n#inline two\n#inline one\n";
        assert_eq!(unroll(nested), "1\n1\n2\n1\n");
        assert_eq!(unroll("#block unused\n1\n#end\n2\n"), "2\n");
        // A second block of the same name replaces the first one below it.
        assert_eq!(unroll("#block a\n1\n#end\n#block a\n#inline a\n2\n#end\n#inline a\n"), "1\n2\n");
    }

    #[test]
    #[should_panic(expected = "no #block a above its #inline")]
    fn a_block_cannot_inline_itself() {
        unroll("#block a\n#inline a\n#end\n#inline a\n");
    }

    #[test]
    fn products_have_precedence_over_sums() {
        let names = [("i", 7), ("row", 2)];
        for (expression, expected) in [
            ("i", 7),
            ("12", 12),
            ("1+2*3", 7),
            ("2*3+1", 7),
            ("i/4", 1),
            ("i%4*2", 6),
            ("20 - row*i - 1", 5),
            ("i - 2 + 1", 6),
        ] {
            assert_eq!(value(expression, &names), expected, "{expression}");
        }
    }
}
