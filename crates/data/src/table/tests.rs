use super::*;

/// Reads a file with this content. Error messages omit the folder name.
fn read_as(content: &str, config: &CsvConfig) -> std::result::Result<Table, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data.csv");
    std::fs::write(&file, content).unwrap();
    Table::read_with(&file, config).map_err(|error| {
        error.to_string().replace(&format!("{}{}", folder.path().display(), std::path::MAIN_SEPARATOR), "")
    })
}

fn read(content: &str) -> std::result::Result<Table, String> {
    read_as(content, &CsvConfig::default())
}

fn names(names: &[&str]) -> Option<Vec<String>> {
    Some(names.iter().map(|name| (*name).to_string()).collect())
}

#[test]
fn columns_are_read_by_name() {
    let table = read("a,b,c\n1,2.5,-3e2\n4, 5 ,6\n").unwrap();
    assert_eq!((table.rows(), table.columns().len()), (2, 3));
    assert_eq!(table.column("b").unwrap(), [2.5, 5.0]);
    assert_eq!((table.row(0), table.row(2)), (Some(&[1.0, 2.5, -300.0][..]), None));
    assert_eq!(table.select(&["c", "a"]).unwrap().cells(), [-300.0, 1.0, 6.0, 4.0]);
    assert_eq!(table.without(&["b"]).unwrap().columns(), ["a", "c"]);
    let tensor = table.to_tensor(&ternion_cpu::device()).unwrap();
    assert_eq!((tensor.dims(), tensor.to_vec::<f32>().unwrap()[2]), (&[2, 3][..], -300.0));
}

#[test]
fn quotes_line_ends_byte_order_marks_and_empty_lines_are_parsed() {
    let table = read("\u{feff}\"a, b\", \"say \"\"c\"\"\"\r\n\r\n\"1\" ,2\r\n3,\"4\"\r\n\r\n").unwrap();
    assert_eq!(table.columns(), ["a, b", "say \"c\""]);
    assert_eq!(table.cells(), [1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn headerless_files_other_delimiters_and_chosen_columns_are_read() {
    let config = CsvConfig {
        delimiter: '\t',
        names: names(&["x", "unused", "y"]),
        columns: names(&["y", "x"]),
        ..CsvConfig::default()
    };
    let table = read_as("1\tinland\t2\n3\tNEAR BAY\t4\n", &config).unwrap();
    assert_eq!(
        (table.columns(), table.cells()),
        (&["y".to_string(), "x".to_string()][..], &[2.0, 1.0, 4.0, 3.0][..])
    );
}

#[test]
fn blanks_are_kept_in_quotation_marks_and_within_a_cell_only() {
    let table = read(" \" a \" ,\tb  c\t, 5\" pipe\n1, 2 ,\"3\" \n").unwrap();
    assert_eq!(table.columns(), [" a ", "b  c", "5\" pipe"]);
    assert_eq!(table.cells(), [1.0, 2.0, 3.0]);
    let message = read("a\n\" 1\"\n").unwrap_err();
    assert_eq!(message, "data.csv: line 2, column 1 (a): expected a number, found \" 1\"");
}

#[test]
fn ambiguous_delimiters_are_errors() {
    for delimiter in ['"', '\n', '\r', '§'] {
        let message = read_as("a\n1\n", &CsvConfig { delimiter, ..CsvConfig::default() }).unwrap_err();
        assert_eq!(
            message,
            format!(
                "csv: delimiter {delimiter:?}, expected an ASCII character other than a quotation mark or a line end"
            )
        );
    }
    for delimiter in [' ', ';', '|'] {
        let content = format!("a{delimiter}\"b{delimiter}c\"\n1{delimiter}\"2\"\n");
        let table = read_as(&content, &CsvConfig { delimiter, ..CsvConfig::default() }).unwrap();
        assert_eq!(
            (table.columns()[1].as_str(), table.cells()),
            (&*format!("b{delimiter}c"), &[1.0, 2.0][..])
        );
    }
}

#[test]
fn invalid_cells_are_reported_with_line_and_column() {
    let cases = [
        ("a,b\n1,2\n\n3,x4\n", "data.csv: line 4, column 2 (b): expected a number, found \"x4\""),
        ("a,b\n1,\n", "data.csv: line 2, column 2 (b): expected a number, found an empty cell"),
        ("a,b\nNaN,1\n", "data.csv: line 2, column 1 (a): expected a finite number, found \"NaN\""),
        ("a,b\n1,1e999\n", "data.csv: line 2, column 2 (b): expected a finite number, found \"1e999\""),
        ("a,b,c\n1,2,3\n1\n", "data.csv: line 3, column 2 (b): missing: expected 3 cells, found 1"),
        ("a,b\n1,2,3\n", "data.csv: line 2, column 3 (no name): surplus: expected 2 cells, found 3"),
        ("a,b\n1,\"2\n", "data.csv: line 2, column 2 (b): quotation marks do not pair up"),
        ("a,b\n\"1\"2,2\n", "data.csv: line 2, column 1 (a): quotation marks do not pair up"),
        ("a,b\n1,\"2\" \"\n", "data.csv: line 2, column 2 (b): quotation marks do not pair up"),
        ("\na,\"b\n1,2\n", "data.csv: line 2, column 2 (no name): quotation marks do not pair up"),
        ("a,b\n1,\"2\n3\"\n", "data.csv: line 2, column 2 (b): quotation marks do not pair up"),
        // The first error of the file is reported, not the quotation marks.
        ("a,b\nx,2\n1,\"2\n", "data.csv: line 2, column 1 (a): expected a number, found \"x\""),
        ("a\n1\r2\n", "data.csv: line 2, column 1 (a): expected a number, found \"1\\r2\""),
        ("a\n\"\"\n", "data.csv: line 2, column 1 (a): expected a number, found an empty cell"),
        ("\n \n\na,b\n\n\n1,x\n", "data.csv: line 7, column 2 (b): expected a number, found \"x\""),
        (
            "a;b\n1;2\n",
            "data.csv: line 2, column 1 (a;b): the cells seem to be separated by ';', expected ','",
        ),
        (
            // Decimal commas.
            "a\tb\n1,5\t2,5\n",
            "data.csv: line 2, column 1 (a\tb): the cells seem to be separated by '\\t', expected ','",
        ),
        ("a,,c\n1,2,3\n", "data.csv: line 1, column 2 (): the column has no name"),
        ("a,b,a\n1,2,3\n", "data.csv: line 1, column 3 (a): column 1 has the same name"),
        ("a,b\n", "data.csv: holds 0 examples, expected at least 1"),
        ("\n\n", "data.csv: holds 0 examples, expected at least 1"),
    ];
    for (content, expected) in cases {
        assert_eq!(read(content).unwrap_err(), expected, "{content:?}");
    }
}

#[test]
fn missing_columns_are_reported_with_the_existing_ones() {
    let expected = "data.csv: line 1: no column z; there are a, b";
    let config = CsvConfig { columns: names(&["a", "z"]), ..CsvConfig::default() };
    assert_eq!(read_as("a,b\n1,2\n", &config).unwrap_err(), expected);
    let table = Table::new(&["a", "b"], vec![1.0, 2.0]).unwrap();
    for rejected in [
        table.column("z").map(|_| ()),
        table.select(&["a", "z"]).map(|_| ()),
        table.without(&["z"]).map(|_| ()),
    ] {
        assert_eq!(rejected.unwrap_err().to_string(), expected.replace("data.csv", "table"));
    }
    assert!(table.select(&["a", "a"]).is_err());
    assert!(table.without(&["a", "b"]).is_err());
}

#[test]
fn tables_of_invalid_numbers_are_errors() {
    assert!(matches!(
        Table::new(&["a", "b"], vec![1.0; 3]),
        Err(DataError::RaggedTable { cells: 3, columns: 2 })
    ));
    assert!(Table::new(&["a"], Vec::new()).is_err());
    assert!(Table::new(&[], Vec::new()).is_err());
    let message = Table::new(&["a", "b"], vec![1.0, 2.0, 3.0, f64::NAN]).unwrap_err().to_string();
    assert_eq!(message, "table: line 2, column 2 (b): expected a finite number, found \"NaN\"");
}

#[test]
fn a_fifth_of_the_rows_is_held_out_by_seed() {
    let table = Table::new(&["row"], (0..50).map(f64::from).collect()).unwrap();
    let (train, held_out) = table.train_test_split(1).unwrap();
    assert_eq!((train.rows(), held_out.rows()), (40, 10));
    assert!(held_out.cells().is_sorted() && train.cells().is_sorted());
    let mut cells = [train.cells(), held_out.cells()].concat();
    cells.sort_by(f64::total_cmp);
    assert_eq!(cells, table.cells());
    assert_eq!(table.train_test_split(1).unwrap().1, held_out);
    assert_ne!(table.train_test_split(2).unwrap().1, held_out);
    let two = Table::new(&["row"], vec![1.0, 2.0]).unwrap();
    assert_eq!(two.train_test_split(0).unwrap().1.rows(), 1);
    let one = Table::new(&["row"], vec![1.0]).unwrap();
    let message = one.train_test_split(0).unwrap_err().to_string();
    assert_eq!(message, "table: 1 rows, expected at least 2: some to train on and some held out");
}

#[test]
fn numbers_that_a_dtype_cannot_represent_are_errors() {
    let device = ternion_cpu::device();
    let times = Table::new(&["time"], vec![1_700_000_001.0, 1_700_000_002.0]).unwrap();
    let message = times.to_tensor(&device).unwrap_err().to_string();
    assert_eq!(
        message,
        "table: line 2, column 1 (time): 1700000002 becomes infinite, 0 or equal to another number in f32: f64 (float64) holds it"
    );
    let exact = times.to_tensor_of(DType::F64, &device).unwrap();
    assert_eq!(exact.to_vec::<f64>().unwrap(), [1_700_000_001.0, 1_700_000_002.0]);
    for (dtype, beyond) in [(DType::F32, 3.402_823_57e38), (DType::F16, 65520.0), (DType::BF16, 3.397e38)] {
        let to_tensor = |number: f64| Table::new(&["a"], vec![number]).unwrap().to_tensor_of(dtype, &device);
        assert!(to_tensor(-beyond).is_err() && to_tensor(beyond * 0.998).is_ok(), "{dtype}");
    }
    assert!(times.to_tensor_of(DType::I64, &device).is_err());
}

#[test]
fn numbers_that_become_0_are_errors_and_half_precision_is_rounded_once() {
    let device = ternion_cpu::device();
    let to_tensor =
        |number: f64, dtype| Table::new(&["a"], vec![number]).unwrap().to_tensor_of(dtype, &device);
    let message = to_tensor(1e-60, DType::F32).unwrap_err().to_string();
    assert!(message.contains("becomes infinite, 0 or equal to another number in f32"), "{message}");
    // Half the smallest f32 number is rounded to even, which is 0.
    assert!(
        to_tensor(2f64.powi(-150), DType::F32).is_err()
            && to_tensor(2f64.powi(-150) * 1.01, DType::F32).is_ok()
    );
    assert!(
        to_tensor(0.0, DType::F32).is_ok()
            && to_tensor(-0.0, DType::F32).is_ok()
            && to_tensor(1e-60, DType::F64).is_ok()
    );
    // Slightly above the midpoint of two adjacent numbers, by a difference that only f64 can
    // represent. Rounded to f32 first, the number would be the midpoint, which rounds to the even
    // neighbor below.
    for (dtype, step, low) in [
        (DType::F16, 2f64.powi(-10), 1.0),
        (DType::BF16, 2f64.powi(-7), 1.0),
        (DType::F16, 2f64.powi(-24), 2f64.powi(-23)),
    ] {
        let middle = low + step / 2.0;
        for (number, expected) in [
            (middle * (1.0 + 1e-12), low + step),
            (middle * (1.0 - 1e-12), low),
            (middle, low),
            (-middle * (1.0 + 1e-12), -low - step),
        ] {
            let rounded = to_tensor(number, dtype).unwrap().to_dtype(DType::F64).unwrap().item_f64().unwrap();
            assert_eq!(rounded, expected, "{dtype} {number}");
        }
    }
}

#[test]
fn integers_that_become_equal_are_errors_from_the_first_on() {
    let device = ternion_cpu::device();
    for (dtype, last) in [(DType::F32, 16_777_216.0), (DType::F16, 2048.0), (DType::BF16, 256.0)] {
        let to_tensor = |numbers: [f64; 2]| {
            Table::new(&["id"], numbers.to_vec()).unwrap().to_tensor_of(dtype, &device).map(drop)
        };
        assert!(
            to_tensor([last + 1.0, last]).is_err() && to_tensor([-last, -last - 1.0]).is_err(),
            "{dtype}"
        );
        assert!(to_tensor([last, last + 2.0]).is_ok() && to_tensor([last - 1.0, last]).is_ok(), "{dtype}");
        assert!(
            to_tensor([last + 2.0, last + 3.0]).is_ok() && to_tensor([last + 3.0, last + 4.0]).is_err(),
            "{dtype}"
        );
    }
    // In half precision, numbers with digits after the point are measurements, and may become
    // equal.
    let measured = Table::new(&["a"], vec![300.25, 300.5]).unwrap();
    assert!(measured.to_tensor_of(DType::BF16, &device).is_ok());
}

#[test]
fn a_file_without_a_header_is_reported_and_empty_cells_are_handled_as_configured() {
    let plain = CsvConfig::default();
    let message = read_as("1,2\n3,4\n", &plain).unwrap_err();
    assert!(message.contains("line 1, column 1 (1): the header is a line of numbers"), "{message}");
    for header in ["-1.5,1e3,nan", "inf,-inf,2", "NaN,NaN,NaN", "-0.0,1E-3,+infinity"] {
        let message = read_as(&format!("{header}\n3,4,5\n"), &plain).unwrap_err();
        assert!(message.contains("line 1, column 1"), "{message}");
        assert!(message.contains("the header is a line of numbers"), "{message}");
    }
    assert_eq!(read_as("nan,1e3,x\n3,4,5\n", &plain).unwrap().cells(), [3.0, 4.0, 5.0]);
    assert_eq!(read_as("1,x\n3,4\n", &plain).unwrap().cells(), [3.0, 4.0]);
    let text = "a,b\n1,\n,2\n3,4\n";
    assert!(read_as(text, &plain).unwrap_err().contains("found an empty cell"));
    let with = |missing| read_as(text, &CsvConfig { missing, ..CsvConfig::default() });
    assert_eq!(with(MissingCells::Fill(7.0)).unwrap().cells(), [1.0, 7.0, 7.0, 2.0, 3.0, 4.0]);
    assert_eq!(with(MissingCells::DropRow).unwrap().cells(), [3.0, 4.0]);
    assert!(with(MissingCells::Fill(f64::NAN)).is_err());
}
