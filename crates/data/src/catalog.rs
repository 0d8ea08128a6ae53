//! Facts about the published data sets: file names, checksums, mirrors, classes. No input or
//! output.

/// A published data set of the MNIST family: four gzip-compressed IDX files with grayscale images
/// of 28 x 28 pixels in ten classes.
///
/// Mirrors can be replaced, for example by those of a private network. Files are still verified by
/// their checksums.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catalog {
    /// The name in messages. It has no other use.
    pub name: &'static str,
    /// The subfolder of a data directory and of the cache in which the files are searched.
    pub folder: &'static str,
    /// The name of the data set's folder in a directory that torchvision created. The files are in
    /// its subfolder `raw`.
    pub torchvision_folder: &'static str,
    /// Training images, training labels, test images, test labels.
    pub files: [RemoteFile; 4],
    /// URLs that end in `/`, tried in order. The file name is appended.
    pub mirrors: Vec<String>,
    /// What the labels 0 to 9 mean.
    pub class_names: [&'static str; 10],
    /// The first ten test labels. They distinguish data sets that use the same file names.
    pub first_test_labels: [u8; 10],
    /// The subject of the images: synthetic digits can replace only digits.
    pub subject: Subject,
}

/// One file as stored on the mirrors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteFile {
    /// The name on the mirrors and in the cache, with `.gz`.
    pub name: String,
    /// The SHA-256 of the compressed file, as 64 lower-case hexadecimal digits.
    pub sha256: String,
}

/// The subject of the images of a data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// Handwritten digits, which synthetic digits can replace.
    Digits,
    /// Pieces of clothing, for which there is no synthetic data.
    Clothing,
}

const FILE_NAMES: [&str; 4] = [
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
];

impl Catalog {
    /// The MNIST digits of LeCun, Cortes and Burges.
    pub fn mnist() -> Self {
        Catalog {
            name: "MNIST",
            folder: "mnist",
            torchvision_folder: "MNIST",
            files: remote_files([
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            ]),
            mirrors: vec![
                "https://ossci-datasets.s3.amazonaws.com/mnist/".to_string(),
                "https://storage.googleapis.com/cvdf-datasets/mnist/".to_string(),
            ],
            class_names: ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"],
            first_test_labels: [7, 2, 1, 0, 4, 1, 4, 9, 5, 9],
            subject: Subject::Digits,
        }
    }

    /// The Fashion-MNIST articles of Xiao, Rasul and Vollgraf (arXiv 1708.07747).
    pub fn fashion_mnist() -> Self {
        Catalog {
            name: "Fashion-MNIST",
            folder: "fashion-mnist",
            torchvision_folder: "FashionMNIST",
            files: remote_files([
                "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
                "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
            ]),
            mirrors: vec![
                "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/"
                    .to_string(),
                "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/".to_string(),
            ],
            class_names: [
                "T-shirt/top",
                "Trouser",
                "Pullover",
                "Dress",
                "Coat",
                "Sandal",
                "Shirt",
                "Sneaker",
                "Bag",
                "Ankle boot",
            ],
            first_test_labels: [9, 2, 1, 1, 6, 1, 4, 6, 5, 7],
            subject: Subject::Clothing,
        }
    }

    /// Returns the file names, without `.gz`.
    pub(crate) fn plain_names(&self) -> Vec<String> {
        self.files.iter().map(|file| plain_name(&file.name).to_string()).collect()
    }
}

/// Returns the name of the uncompressed file.
pub(crate) fn plain_name(name: &str) -> &str {
    name.strip_suffix(".gz").unwrap_or(name)
}

/// Returns the other common name of the uncompressed file: `train-images.idx3-ubyte`.
pub(crate) fn dotted_name(name: &str) -> String {
    plain_name(name).replacen("-idx", ".idx", 1)
}

fn remote_files(sha256: [&str; 4]) -> [RemoteFile; 4] {
    std::array::from_fn(|index| RemoteFile {
        name: FILE_NAMES[index].to_string(),
        sha256: sha256[index].to_string(),
    })
}
