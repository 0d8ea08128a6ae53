//! Downloads from a local server, with correct and faulty replies.

use super::*;
use crate::catalog::Subject;
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// The reply of the server for a path.
#[derive(Clone)]
enum Reply {
    Body(Vec<u8>),
    /// Announces more bytes than it sends.
    BrokenOff {
        announced: usize,
        sent: Vec<u8>,
    },
    /// No announced length: the body ends when the connection is closed.
    UntilClosed(Vec<u8>),
    NotFound,
}

/// A web server that answers each path with a fixed reply and records the requested paths.
struct Server {
    address: String,
    requested: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start(replies: impl IntoIterator<Item = (&'static str, Reply)>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/", listener.local_addr().unwrap());
        let replies: HashMap<_, _> = replies.into_iter().collect();
        let requested = Arc::new(Mutex::new(Vec::new()));
        let log = requested.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                answer(stream.unwrap(), &replies, &log);
            }
        });
        Server { address, requested }
    }

    fn requested(&self) -> Vec<String> {
        self.requested.lock().unwrap().clone()
    }
}

fn answer(mut stream: TcpStream, replies: &HashMap<&str, Reply>, log: &Mutex<Vec<String>>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(std::result::Result::ok);
    let Some(request) = lines.next() else { return };
    let path = request.split(' ').nth(1).unwrap().trim_start_matches('/').to_string();
    lines.take_while(|line| !line.is_empty()).for_each(drop);
    let announce = |length: usize| format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n");
    let (head, body) = match replies.get(path.as_str()).cloned().unwrap_or(Reply::NotFound) {
        Reply::Body(body) => (announce(body.len()), body),
        Reply::BrokenOff { announced, sent } => (announce(announced), sent),
        Reply::UntilClosed(body) => ("HTTP/1.1 200 OK\r\n".to_string(), body),
        Reply::NotFound => ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n".to_string(), vec![]),
    };
    log.lock().unwrap().push(path);
    // The client may close the connection early.
    let _ = stream.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes());
    let _ = stream.write_all(&body);
}

const NAMES: [&str; 4] = ["a.gz", "b.gz", "c.gz", "d.gz"];

/// Returns the correct content of a file.
fn content(name: &str) -> Vec<u8> {
    name.bytes().cycle().take(200_000).collect()
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn catalog(mirrors: &[&str]) -> Catalog {
    Catalog {
        files: NAMES.map(|name| RemoteFile { name: name.to_string(), sha256: sha256(&content(name)) }),
        mirrors: mirrors.iter().map(|mirror| mirror.to_string()).collect(),
        subject: Subject::Clothing,
        ..Catalog::mnist()
    }
}

fn good_server() -> Server {
    Server::start(NAMES.map(|name| (name, Reply::Body(content(name)))))
}

/// Starts a server that sends `reply` for the first file.
fn server_with(reply: Reply) -> Server {
    Server::start([("a.gz", reply)])
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Downloads into a new folder from one server that fails at the first file. Returns the message.
fn failure(reply: Reply) -> String {
    let folder = tempfile::tempdir().unwrap();
    let server = server_with(reply);
    let error = download_missing(&catalog(&[&server.address]), folder.path()).unwrap_err();
    assert_eq!(names_in(folder.path()), [""; 0], "something was left behind");
    let message = error.to_string();
    let address = format!("a.gz could not be downloaded: {}a.gz: ", server.address);
    message.strip_prefix(&address).unwrap_or_else(|| panic!("{message}")).to_string()
}

#[test]
fn every_file_is_downloaded_once_from_a_valid_mirror() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("cache").join("set");
    let server = good_server();
    for _ in 0..2 {
        download_missing(&catalog(&[&server.address]), &target).unwrap();
    }
    assert_eq!(server.requested(), NAMES);
    assert_eq!(names_in(&target), NAMES);
    for name in NAMES {
        assert_eq!(std::fs::read(target.join(name)).unwrap(), content(name));
    }
}

#[test]
fn only_missing_or_corrupt_files_are_downloaded() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("b.gz"), content("b.gz")).unwrap();
    std::fs::write(folder.path().join("c.gz"), &content("c.gz")[1..]).unwrap();
    let server = good_server();
    download_missing(&catalog(&[&server.address]), folder.path()).unwrap();
    assert_eq!(server.requested(), ["a.gz", "c.gz", "d.gz"]);
    for name in NAMES {
        assert_eq!(std::fs::read(folder.path().join(name)).unwrap(), content(name));
    }
}

#[test]
fn body_without_a_length_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(NAMES.map(|name| (name, Reply::UntilClosed(content(name)))));
    download_missing(&catalog(&[&server.address]), folder.path()).unwrap();
    assert_eq!(names_in(folder.path()), NAMES);
}

#[test]
fn wrong_checksum_is_an_error() {
    let wrong = content("wrong");
    let expected =
        format!("200000 bytes with SHA-256 {}, expected {}", sha256(&wrong), sha256(&content("a.gz")));
    assert_eq!(failure(Reply::Body(wrong)), expected);
}

#[test]
fn truncated_body_is_an_error_with_and_without_a_length() {
    let sent = content("a.gz")[..100_000].to_vec();
    let message = failure(Reply::BrokenOff { announced: 200_000, sent: sent.clone() });
    assert!(message.starts_with("broke off after 100000 bytes: "), "{message}");
    let message = failure(Reply::UntilClosed(sent));
    assert!(message.starts_with("100000 bytes with SHA-256 "), "{message}");
}

#[test]
fn missing_file_is_an_error_with_the_status() {
    let message = failure(Reply::NotFound);
    assert!(message.contains("404"), "{message}");
}

#[test]
fn second_mirror_is_tried_if_the_first_fails() {
    let folder = tempfile::tempdir().unwrap();
    let first = Server::start([
        ("a.gz", Reply::Body(content("wrong"))),
        ("b.gz", Reply::Body(content("b.gz"))),
        ("c.gz", Reply::BrokenOff { announced: 200_000, sent: vec![1; 10] }),
    ]);
    let second = good_server();
    download_missing(&catalog(&[&first.address, &second.address]), folder.path()).unwrap();
    assert_eq!(first.requested(), NAMES);
    assert_eq!(second.requested(), ["a.gz", "c.gz", "d.gz"]);
    for name in NAMES {
        assert_eq!(std::fs::read(folder.path().join(name)).unwrap(), content(name));
    }
    assert_eq!(names_in(folder.path()), NAMES);
}

#[test]
fn all_failed_mirrors_are_listed_and_a_closed_port_fails_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}/", listener.local_addr().unwrap())
    };
    let absent = server_with(Reply::NotFound);
    let started = std::time::Instant::now();
    let error = download_missing(&catalog(&[&closed, &absent.address]), folder.path()).unwrap_err();
    assert!(started.elapsed() < CONNECT_TIMEOUT);
    match error {
        DataError::Download { file, attempts } => {
            assert_eq!((file.as_str(), attempts.len()), ("a.gz", 2));
            assert!(attempts[0].starts_with(&format!("{closed}a.gz: ")), "{attempts:?}");
            assert!(attempts[1].starts_with(&format!("{}a.gz: ", absent.address)), "{attempts:?}");
        }
        other => panic!("{other}"),
    }
    let error = download_missing(&catalog(&[]), folder.path()).unwrap_err();
    assert_eq!(error.to_string(), "a.gz could not be downloaded: there is no mirror");
}

#[test]
fn endless_body_is_stopped_at_the_limit() {
    let mut received = std::io::sink();
    let outcome = copy_verified(std::io::repeat(7), &mut received, "", &ProgressBar::hidden()).unwrap();
    assert_eq!(outcome.unwrap_err(), "more than 67108864 bytes");
}

#[test]
fn uncreatable_folder_is_an_error_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let message = download_missing(&catalog(&[]), &file.join("cache")).unwrap_err().to_string();
    assert!(message.starts_with(&file.join("cache").display().to_string()), "{message}");
}
