//! Loads data sets of the MNIST family from directories, a cache and a mirror, as a user does.

use flate2::{Compression, write::GzEncoder};
use std::io::Write;
use std::path::{Path, PathBuf};
use ternion_data::{Catalog, DataError, DataSource, Mnist, Network, Origin, Search};

const TRAIN: usize = 12;
const TEST: usize = 10;

fn numbers(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
}

/// Image `i` is filled with `i`.
fn images(count: usize) -> Vec<u8> {
    let mut bytes = numbers(&[2051, count as u32, 28, 28]);
    bytes.extend((0..count).flat_map(|number| [number as u8; 784]));
    bytes
}

fn labels(labels: &[u8]) -> Vec<u8> {
    [numbers(&[2049, labels.len() as u32]), labels.to_vec()].concat()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

const NAMES: [&str; 4] = [
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
];

/// A small complete data set.
fn contents() -> [Vec<u8>; 4] {
    let train: Vec<u8> = (0..TRAIN).map(|number| (number % 10) as u8).collect();
    [images(TRAIN), labels(&train), images(TEST), labels(&[3; TEST])]
}

fn write_set(folder: &Path, contents: &[Vec<u8>; 4]) {
    std::fs::create_dir_all(folder).unwrap();
    for (name, content) in NAMES.iter().zip(contents) {
        std::fs::write(folder.join(name), content).unwrap();
    }
}

fn from_directory(directory: &Path) -> Result<Mnist, DataError> {
    Mnist::load(DataSource::Directory(directory.to_path_buf()))
}

/// Loads the data set with one file replaced, and returns the message without the folder name.
fn message_with(replaced: usize, content: Vec<u8>) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut contents = contents();
    contents[replaced] = content;
    write_set(folder.path(), &contents);
    let message = from_directory(folder.path()).unwrap_err().to_string();
    message.replace(&format!("{}{}", folder.path().display(), std::path::MAIN_SEPARATOR), "")
}

fn offline(directories: &[&Path], cache: Option<&Path>) -> Search {
    Search {
        directories: directories.iter().map(|directory| directory.to_path_buf()).collect(),
        cache: cache.map(Path::to_path_buf),
        network: Network::Forbidden,
    }
}

#[test]
fn a_directory_is_loaded_with_and_without_gz_directly_and_in_its_subfolder() {
    for subfolder in ["", "mnist"] {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join(subfolder);
        write_set(&folder, &contents());
        let packed = folder.join("train-images-idx3-ubyte");
        std::fs::remove_file(&packed).unwrap();
        std::fs::write(packed.with_extension("gz"), gzip(&contents()[0])).unwrap();
        let mnist = from_directory(directory.path()).unwrap();
        assert_eq!((mnist.train().len(), mnist.test().len()), (TRAIN, TEST));
        assert_eq!(mnist.train().image(7), Some(&[7; 784][..]));
        assert_eq!((mnist.train().label(11), mnist.test().label(0)), (Some(1), Some(3)));
        assert_eq!(mnist.class_names()[9], "9");
        let expected = if subfolder.is_empty() { directory.path().to_path_buf() } else { folder };
        assert_eq!(mnist.origin(), &Origin::Files { folder: expected });
        assert!(!mnist.origin().is_synthetic());
    }
}

#[test]
fn two_data_sets_in_one_directory_are_distinguished() {
    let directory = tempfile::tempdir().unwrap();
    let mut fashion = contents();
    fashion[3] = labels(&Catalog::fashion_mnist().first_test_labels);
    write_set(&directory.path().join("fashion-mnist"), &fashion);
    write_set(&directory.path().join("mnist"), &contents());
    let source = || DataSource::Directory(directory.path().to_path_buf());
    assert_eq!(Mnist::fashion(source()).unwrap().test().label(0), Some(9));
    assert_eq!(Mnist::fashion(source()).unwrap().class_names()[9], "Ankle boot");
    assert_eq!(Mnist::load(source()).unwrap().test().label(0), Some(3));
    let message = from_directory(&directory.path().join("fashion-mnist")).unwrap_err().to_string();
    assert!(
        message.ends_with("t10k-labels-idx1-ubyte: these are the files of Fashion-MNIST, not of MNIST"),
        "{message}"
    );
}

#[test]
fn missing_files_of_a_directory_are_listed() {
    let directory = tempfile::tempdir().unwrap();
    let message = |missing: &[&str]| {
        format!("{}: no complete MNIST here: missing {}", directory.path().display(), missing.join(", "))
    };
    assert_eq!(from_directory(directory.path()).unwrap_err().to_string(), message(&NAMES));
    write_set(&directory.path().join("mnist"), &contents());
    std::fs::remove_file(directory.path().join("mnist").join(NAMES[2])).unwrap();
    assert_eq!(from_directory(directory.path()).unwrap_err().to_string(), message(&NAMES[2..3]));
}

#[test]
fn corrupt_files_are_reported_with_both_counts() {
    assert_eq!(
        message_with(0, labels(&[1; 20])),
        "train-images-idx3-ubyte: bad magic number: expected 2051 (0x00000803), found 2049 (0x00000801)"
    );
    assert_eq!(
        message_with(2, images(TEST)[..1000].to_vec()),
        "t10k-images-idx3-ubyte: truncated: expected 7856 bytes, found 1000"
    );
    let surplus = [images(TRAIN), vec![0; 784]].concat();
    assert_eq!(
        message_with(0, surplus),
        "train-images-idx3-ubyte: wrong count: the header promises 12 items, the file holds 13"
    );
    assert_eq!(
        message_with(1, labels(&[1; 11])),
        "train-images-idx3-ubyte holds 12 images, but train-labels-idx1-ubyte holds 11 labels"
    );
    assert_eq!(
        message_with(2, [numbers(&[2051, 10, 28, 14]), vec![0; 3920]].concat()),
        "t10k-images-idx3-ubyte: expected images of 28 x 28 pixels, found 28 x 14"
    );
    assert_eq!(message_with(2, images(0)), "t10k-images-idx3-ubyte: holds 0 examples, expected at least 1");
}

/// A small complete data set of square images with these labels.
fn set_of(size: usize, [train, test]: [&[u8]; 2]) -> [Vec<u8>; 4] {
    let images = |count: usize| {
        let mut bytes = numbers(&[2051, count as u32, size as u32, size as u32]);
        bytes.extend(vec![7; count * size * size]);
        bytes
    };
    [images(train.len()), labels(train), images(test.len()), labels(test)]
}

#[test]
fn files_determine_the_size_of_images_and_the_number_of_classes() {
    for (size, classes) in [(32, 26), (16, 47), (28, 62), (28, 5), (8, 256)] {
        let directory = tempfile::tempdir().unwrap();
        let last = (classes - 1) as u8;
        write_set(directory.path(), &set_of(size, [&[0, 1, last], &[1, 0]]));
        let mnist = from_directory(directory.path()).unwrap();
        assert_eq!((mnist.train().rows(), mnist.test().cols()), (size, size));
        assert_eq!(mnist.class_names().len(), classes);
        assert_eq!(mnist.class_names().last().unwrap(), &last.to_string());
        // The largest label determines the number of classes, in whichever split it is.
        write_set(directory.path(), &set_of(size, [&[0, 1], &[last]]));
        assert_eq!(from_directory(directory.path()).unwrap().class_names().len(), classes);
    }
}

#[test]
fn number_of_classes_can_be_set() {
    let load = || {
        let directory = tempfile::tempdir().unwrap();
        write_set(directory.path(), &set_of(28, [&[0, 4], &[1, 6]]));
        from_directory(directory.path()).unwrap()
    };
    assert_eq!(load().with_classes(12).unwrap().class_names()[11], "11");
    assert_eq!(load().with_classes(7).unwrap().class_names().len(), 7);
    let message = load().with_classes(5).unwrap_err().to_string();
    assert_eq!(message, "test labels: label 6 at position 1 is out of range: there are 5 classes");
    let message = load().with_classes(300).unwrap_err().to_string();
    assert_eq!(message, "300 classes, expected at most 256");
}

#[test]
fn only_torchvision_data_set_is_loaded_and_several_are_listed() {
    let directory = tempfile::tempdir().unwrap();
    let raw = |name: &str| directory.path().join(name).join("raw");
    let mut fashion = contents();
    fashion[3] = labels(&Catalog::fashion_mnist().first_test_labels);
    write_set(&raw("FashionMNIST"), &fashion);
    let mnist = from_directory(directory.path()).unwrap();
    assert_eq!((mnist.class_names()[9].as_str(), mnist.test().label(0)), ("Ankle boot", Some(9)));
    assert_eq!(mnist.origin(), &Origin::Files { folder: raw("FashionMNIST") });
    assert!(mnist.notices()[0].ends_with("FashionMNIST/raw is taken"), "{:?}", mnist.notices());
    // A search for digits does not accept clothing.
    let search = offline(&[directory.path()], None);
    assert!(matches!(Mnist::find(&Catalog::mnist(), &search), Err(DataError::NotFound { .. })));
    write_set(&raw("KMNIST"), &contents());
    let message = from_directory(directory.path()).unwrap_err().to_string();
    let existing_folders =
        [raw("FashionMNIST"), raw("KMNIST")].map(|folder| folder.display().to_string()).join(", ");
    assert!(
        message.ends_with(&format!("; name one of those that are here: {existing_folders}")),
        "{message}"
    );
    write_set(&raw("MNIST"), &contents());
    assert_eq!(from_directory(directory.path()).unwrap().origin(), &Origin::Files { folder: raw("MNIST") });
}

#[test]
fn a_search_prefers_named_directories_and_skips_incomplete_ones() {
    let [incomplete, named, cache] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
    write_set(incomplete.path(), &contents());
    std::fs::remove_file(incomplete.path().join(NAMES[1])).unwrap();
    write_set(&cache.path().join("mnist"), &contents());
    let origin = |directories: &[&Path]| {
        Mnist::find(&Catalog::mnist(), &offline(directories, Some(cache.path()))).unwrap().origin().clone()
    };
    let in_cache = Origin::Files { folder: cache.path().join("mnist") };
    assert_eq!(origin(&[incomplete.path(), named.path()]), in_cache);
    write_set(named.path(), &contents());
    assert_eq!(
        origin(&[incomplete.path(), named.path()]),
        Origin::Files { folder: named.path().to_path_buf() }
    );
}

#[test]
fn failed_search_reports_locations_and_advice() {
    let search = offline(&[Path::new("named")], Some(Path::new("cache")));
    let message = Mnist::find(&Catalog::mnist(), &search).unwrap_err().to_string();
    let folders: Vec<String> = ["named/mnist", "named", "named/MNIST/raw", "named/raw", "cache/mnist"]
        .map(|folder| folder.split('/').collect::<PathBuf>().display().to_string())
        .to_vec();
    assert!(message.contains(&folders.join(", ")), "{message}");
    for part in ["TERNION_OFFLINE", "--data DIR", "TERNION_DATA=DIR", NAMES[0]] {
        assert!(message.contains(part), "{message}");
    }
    let nowhere = Search { network: Network::Allowed, ..offline(&[], None) };
    let message = Mnist::find(&Catalog::mnist(), &nowhere).unwrap_err().to_string();
    assert!(message.contains("looked in: no directory") && message.contains("HOME"), "{message}");
}

/// Starts a server that answers every request with the file of that name. Returns its address.
fn serve(contents: [Vec<u8>; 4]) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                std::io::Read::read_exact(&mut stream, &mut byte).unwrap();
                request.push(byte[0]);
            }
            let request = String::from_utf8(request).unwrap();
            let body = &contents[NAMES.iter().position(|name| request.contains(name)).unwrap()];
            let head =
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(body).unwrap();
        }
    });
    address
}

/// The catalog of the small data set, compressed, with its checksums and these mirrors.
fn served_catalog(mirrors: Vec<String>) -> Catalog {
    let mut catalog = Catalog { mirrors, ..Catalog::mnist() };
    for (file, content) in catalog.files.iter_mut().zip(contents()) {
        let hash = <sha2::Sha256 as sha2::Digest>::digest(gzip(&content));
        file.sha256 = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    }
    catalog
}

#[test]
fn missing_files_are_downloaded_once_and_then_found() {
    let cache = tempfile::tempdir().unwrap();
    let online = Search { network: Network::Allowed, ..offline(&[], Some(cache.path())) };
    let catalog = served_catalog(vec![serve(contents().map(|content| gzip(&content)))]);
    let folder = cache.path().join("mnist");
    let first = Mnist::find(&catalog, &online).unwrap();
    assert_eq!(first.origin(), &Origin::Downloaded { folder: folder.clone() });
    assert_eq!(first.train().image(7), Some(&[7; 784][..]));
    let second = Mnist::find(&served_catalog(vec![]), &offline(&[], Some(cache.path()))).unwrap();
    assert_eq!(second.origin(), &Origin::Files { folder });
}

#[test]
fn directory_without_the_data_is_reported_for_every_origin() {
    let [named, cache, full_cache] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
    write_set(named.path(), &contents());
    std::fs::remove_file(named.path().join(NAMES[1])).unwrap();
    write_set(&full_cache.path().join("mnist"), &contents());
    let mirror = serve(contents().map(|content| gzip(&content)));
    let catalog = served_catalog(vec![mirror]);
    let nowhere = named.path().join("nowhere");
    let notice = |directory: &Path, missing: &[&str]| {
        format!(
            "skipped, though named by TERNION_DATA: {}: no complete MNIST here: missing {}",
            directory.display(),
            missing.join(", ")
        )
    };
    for (directory, missing) in [(named.path(), &NAMES[1..2]), (&nowhere, &NAMES[..])] {
        let expected = notice(directory, missing);
        let online =
            Search { network: Network::Allowed, ..offline(&[directory], Some(&cache.path().join("fresh"))) };
        let cases = [
            ("cache", Mnist::find(&catalog, &offline(&[directory], Some(full_cache.path())))),
            ("download", Mnist::find(&catalog, &online)),
            ("drawn", Mnist::find_or_synthetic(&catalog, &offline(&[directory], None), SMALL)),
        ];
        for (case, outcome) in cases {
            assert_eq!(outcome.unwrap().notices(), std::slice::from_ref(&expected), "{case}");
        }
        let message = Mnist::find(&catalog, &offline(&[directory], None)).unwrap_err().to_string();
        assert!(message.contains(&expected), "{message}");
    }
    let found = Mnist::find(&catalog, &offline(&[full_cache.path()], None)).unwrap();
    assert_eq!(found.notices(), [""; 0]);
}

#[test]
fn corrupt_cached_file_is_downloaded_again_or_reported() {
    let cache = tempfile::tempdir().unwrap();
    let folder = cache.path().join("mnist");
    let online = Search { network: Network::Allowed, ..offline(&[], Some(cache.path())) };
    let catalog = served_catalog(vec![serve(contents().map(|content| gzip(&content)))]);
    Mnist::find(&catalog, &online).unwrap();
    let packed = folder.join(NAMES[0]).with_extension("gz");
    let valid = std::fs::read(&packed).unwrap();
    for corrupt in [&valid[..valid.len() - 9], b"no gzip"] {
        std::fs::write(&packed, corrupt).unwrap();
        let message = Mnist::find(&catalog, &offline(&[], Some(cache.path()))).unwrap_err().to_string();
        assert!(message.starts_with(&packed.display().to_string()), "{message}");
        for part in ["TERNION_OFFLINE", &format!("Delete it from {}", folder.display())] {
            assert!(message.contains(part), "{message}");
        }
        let reloaded = Mnist::find(&catalog, &online).unwrap();
        assert_eq!(reloaded.origin(), &Origin::Downloaded { folder: folder.clone() });
        assert!(reloaded.notices()[0].starts_with("corrupt in the cache, downloaded again: "));
        assert_eq!(std::fs::read(&packed).unwrap(), valid);
    }
}

#[test]
fn valid_one_of_a_compressed_and_a_plain_file_is_read() {
    let directory = tempfile::tempdir().unwrap();
    write_set(directory.path(), &contents());
    let [plain, packed] =
        ["", "gz"].map(|extension| directory.path().join(NAMES[2]).with_extension(extension));
    std::fs::write(&packed, "no gzip").unwrap();
    let mnist = from_directory(directory.path()).unwrap();
    assert_eq!(mnist.test().len(), TEST);
    let notice = &mnist.notices()[0];
    assert!(notice.starts_with(&packed.display().to_string()), "{notice}");
    assert!(notice.ends_with(&format!("{} is taken instead", plain.display())), "{notice}");
    std::fs::write(&plain, "no images").unwrap();
    let message = from_directory(directory.path()).unwrap_err().to_string();
    assert!(message.starts_with(&packed.display().to_string()), "{message}");
}

const SMALL: DataSource = DataSource::Synthetic { train: 30, test: 20, seed: 1 };

#[test]
fn synthetic_substitute_is_reported_with_the_reason() {
    let cache = tempfile::tempdir().unwrap();
    let online = Search { network: Network::Allowed, ..offline(&[], Some(cache.path())) };
    let catalog = served_catalog(vec!["http://127.0.0.1:1/".to_string()]);
    let mnist = Mnist::find_or_synthetic(&catalog, &online, SMALL).unwrap();
    assert_eq!((mnist.train().len(), mnist.test().len()), (30, 20));
    assert!(mnist.origin().is_synthetic());
    let notice = mnist.origin().to_string();
    for part in ["SYNTHETIC DIGITS, NOT MNIST", "http://127.0.0.1:1/train-images-idx3-ubyte.gz: "] {
        assert!(notice.contains(part), "{notice}");
    }
}

#[test]
fn synthetic_digits_never_hide_corrupt_or_missing_requested_files() {
    let cache = tempfile::tempdir().unwrap();
    let folder = cache.path().join("mnist");
    write_set(&folder, &contents());
    std::fs::write(folder.join(NAMES[0]), [1, 2, 3]).unwrap();
    let search = offline(&[], Some(cache.path()));
    let error = Mnist::find_or_synthetic(&Catalog::mnist(), &search, SMALL).unwrap_err();
    let DataError::CorruptCache { source, .. } = &error else { panic!("{error}") };
    assert!(matches!(**source, DataError::Truncated { found_bytes: 3, .. }), "{source}");
    let named = DataSource::Directory(folder.join("nothing"));
    assert!(matches!(Mnist::load_or_synthetic(named), Err(DataError::Missing { .. })));
}

#[test]
fn synthetic_digits_can_be_requested_but_not_as_clothing() {
    let (mnist, origin) = Mnist::load_or_synthetic(SMALL).unwrap();
    assert_eq!((mnist.train().len(), mnist.test().len(), mnist.train().rows()), (30, 20, 28));
    assert_eq!(origin, Origin::Synthetic);
    assert!(origin.to_string().contains("NOT MNIST"));
    let message = Mnist::fashion(SMALL).unwrap_err().to_string();
    assert_eq!(
        message,
        "Fashion-MNIST: no synthetic data replaces it, expected a directory or \"auto\" and not \"synthetic\""
    );
    let search = offline(&[], None);
    let substitute = Mnist::find_or_synthetic(&Catalog::fashion_mnist(), &search, SMALL);
    assert!(matches!(substitute, Err(DataError::NotFound { .. })));
}

#[test]
fn data_source_is_parsed_and_formatted() {
    let cases = [
        ("auto", DataSource::Auto),
        ("synthetic", DataSource::SYNTHETIC),
        ("some/folder", DataSource::Directory(PathBuf::from("some/folder"))),
    ];
    for (text, source) in cases {
        assert_eq!(text.parse::<DataSource>().unwrap(), source);
        assert_eq!(source.to_string(), text);
    }
    let message = "".parse::<DataSource>().unwrap_err().to_string();
    assert!(message.starts_with("the name of the data directory is empty"), "{message}");
    assert_eq!(from_directory(Path::new("")).unwrap_err().to_string(), message);
}

/// Files of any names, sizes and classes, also those of a data set that has MNIST's names.
#[test]
fn four_idx_files_of_any_names_are_a_data_set() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let pictures = |count: usize| [numbers(&[2051, count as u32, 8, 6]), vec![7; count * 48]].concat();
    let fashion_labels = [9, 2, 1, 1, 6, 1, 4, 6, 5, 7, 11];
    let train = [file("letters.idx", &pictures(3)), file("letters.gz", &gzip(&labels(&[0, 11, 4])))];
    let test = [file("more.idx", &pictures(11)), file("more-labels.idx", &labels(&fashion_labels))];
    let set = Mnist::from_idx([&train[0], &train[1]], [&test[0], &test[1]]).unwrap();
    assert_eq!((set.train().len(), set.test().len(), set.train().rows(), set.train().cols()), (3, 11, 8, 6));
    assert_eq!((set.class_names().len(), set.class_names()[11].as_str()), (12, "11"));
    assert!(matches!(set.origin(), Origin::Files { folder: found } if found == folder.path()));

    let wrong = Mnist::from_idx([&train[0], &train[1]], [&train[1], &test[1]]).unwrap_err().to_string();
    assert!(wrong.contains("letters.gz: bad magic number: expected 2051"), "{wrong}");
    let unequal = Mnist::from_idx([&train[0], &test[1]], [&test[0], &test[1]]).unwrap_err().to_string();
    assert!(unequal.contains("holds 3 images") && unequal.contains("holds 11 labels"), "{unequal}");
    let missing =
        Mnist::from_idx([&folder.path().join("none"), &train[1]], [&test[0], &test[1]]).unwrap_err();
    assert!(missing.to_string().contains("none: "), "{missing}");
}
