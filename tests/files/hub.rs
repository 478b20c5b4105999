//! Files of the Hugging Face hub: they lie in its cache as its own tools put them, whatever the network does.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use kiln::io::{Download, HubOpts, HubProblem, hub_download};

use super::hub_server::{COMMIT, Fault, HubServer, Request, etag};
use super::*;

const NEXT: &str = "beef000000000000000000000000000000000000";

/// More than the client reads at once, and nothing that repeats soon.
fn weights() -> Vec<u8> {
    (0..300_000_u32).flat_map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes()).collect()
}

fn opts(server: &HubServer, cache: &Folder) -> HubOpts {
    HubOpts::default().endpoint(server.address()).cache(cache.0.clone()).timeout(Duration::from_secs(5))
}

fn problem(result: kiln::Result<PathBuf>) -> HubProblem {
    match result.unwrap_err() {
        Error::Hub(error) => error.problem.clone(),
        error => panic!("{error}"),
    }
}

/// All files in the folders of a model that are, or look, whole.
fn in_snapshots(cache: &Folder) -> usize {
    let snapshots = fs::read_dir(cache.file("models--org--net/snapshots")).into_iter().flatten();
    snapshots.flat_map(|commit| fs::read_dir(commit.unwrap().path()).unwrap()).count()
}

#[test]
fn a_file_lies_where_the_hubs_own_tools_put_it() {
    let (weights, cache) = (weights(), Folder::new("hub-layout"));
    let server = HubServer::start(&[("model.safetensors", &weights), ("1_Pooling/config.json", b"{}")]);
    let opts = opts(&server, &cache).token("hf_me");
    let path = hub_download("org/net", "main", "model.safetensors", opts.clone()).unwrap();
    assert_eq!(fs::read(&path).unwrap(), weights);

    let model = cache.file("models--org--net");
    assert_eq!(path, model.join(format!("snapshots/{COMMIT}/model.safetensors")));
    assert_eq!(fs::read_to_string(model.join("refs/main")).unwrap(), COMMIT);
    assert_eq!(fs::read(model.join("blobs").join(etag(&weights))).unwrap(), weights);
    assert_eq!(fs::read_dir(model.join("blobs")).unwrap().count(), 1, "nothing else is left");
    let nested = hub_download("org/net", "main", "1_Pooling/config.json", opts).unwrap();
    if cfg!(unix) {
        let name = etag(&weights);
        assert_eq!(fs::read_link(&path).unwrap(), Path::new("../../blobs").join(name));
        assert_eq!(fs::read_link(&nested).unwrap(), Path::new("../../../blobs").join(etag(b"{}")));
    }

    let requests = server.requests();
    let lines: Vec<String> = requests.iter().map(Request::line).collect();
    assert_eq!(lines[0], "HEAD /org/net/resolve/main/model.safetensors");
    assert_eq!(
        lines[1],
        format!("GET /org/net/resolve/{COMMIT}/model.safetensors"),
        "of the commit that was found"
    );
    assert_eq!(lines[2], format!("GET /cdn/{COMMIT}/model.safetensors"));
    let tokens: Vec<Option<&str>> = requests[..3].iter().map(|request| request.token.as_deref()).collect();
    assert_eq!(tokens, [Some("hf_me"), Some("hf_me"), None], "the other host has no business with the token");
}

#[test]
fn what_is_in_the_cache_asks_nothing_of_the_network() {
    let cache = Folder::new("hub-cached");
    let server = HubServer::start(&[("config.json", b"{}")]);
    let opts = opts(&server, &cache);
    let path = hub_download("org/net", "main", "config.json", opts.clone()).unwrap();
    server.requests();
    for revision in ["main", COMMIT] {
        assert_eq!(hub_download("org/net", revision, "config.json", opts.clone()).unwrap(), path);
        assert_eq!(
            hub_download("org/net", revision, "config.json", opts.clone().offline(true)).unwrap(),
            path
        );
    }
    let missing = hub_download("org/net", "main", "other.json", opts.clone().offline(true)).unwrap_err();
    assert!(
        missing.to_string().contains("other.json") && missing.to_string().contains("HF_HUB_OFFLINE"),
        "{missing}"
    );
    assert_eq!(server.lines(), Vec::<String>::new());

    server.commit(NEXT, "config.json", b"[]");
    assert_eq!(hub_download("org/net", "main", "config.json", opts.clone()).unwrap(), path, "not asked");
    let moved = hub_download("org/net", "main", "config.json", opts.refresh(true)).unwrap();
    assert_eq!(fs::read(moved).unwrap(), b"[]");
    assert_eq!(fs::read(path).unwrap(), b"{}", "the old commit is as it was");
}

#[test]
fn a_connection_that_is_cut_is_resumed_where_it_stopped() {
    let (weights, cache) = (weights(), Folder::new("hub-cut"));
    let server = HubServer::start(&[("model.safetensors", &weights)]);
    let mut cuts = [400_000, 300_000].into_iter();
    server.fail(move |request| request.path.starts_with("/cdn/").then(|| cuts.next().map(Fault::Cut))?);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let reports = seen.clone();
    let opts = opts(&server, &cache).progress(move |download: &Download<'_>| {
        assert_eq!(download.file, "model.safetensors");
        reports.lock().unwrap().push((download.done, download.total));
    });
    let path = hub_download("org/net", "main", "model.safetensors", opts).unwrap();
    assert!(fs::read(path).unwrap() == weights);
    let from: Vec<_> =
        server.requests().iter().filter(|it| it.path.starts_with("/cdn/")).map(|it| it.from).collect();
    assert_eq!(from, [None, Some(400_000), Some(700_000)]);
    let seen = seen.lock().unwrap();
    assert!(seen.is_sorted(), "{seen:?}");
    assert_eq!((seen[0], seen.last()), ((0, 1_200_000), Some(&(1_200_000, 1_200_000))));
}

#[test]
fn a_download_that_failed_is_continued_by_the_next_one() {
    let (weights, cache) = (weights(), Folder::new("hub-continued"));
    let server = HubServer::start(&[("model.safetensors", &weights)]);
    let opts = opts(&server, &cache);
    // All of it is never sent, whatever is asked.
    server.fail(|request| {
        request.path.starts_with("/cdn/").then_some(Fault::Cut(if request.from.is_none() { 1000 } else { 0 }))
    });
    let start = Instant::now();
    let error = problem(hub_download("org/net", "main", "model.safetensors", opts.clone()));
    assert!(matches!(error, HubProblem::Incomplete { arrived: 1000, size: 1_200_000, .. }), "{error}");
    assert!(start.elapsed() < Duration::from_secs(20));
    assert_eq!(in_snapshots(&cache), 0, "nothing looks whole");
    server.requests();

    // A server that cannot continue sends all.
    server.fail(|request| request.path.starts_with("/cdn/").then_some(Fault::Whole));
    let path = hub_download("org/net", "main", "model.safetensors", opts).unwrap();
    assert!(server.lines().last().unwrap().ends_with("from 1000"));
    assert!(fs::read(path).unwrap() == weights);
}

#[test]
fn a_file_of_another_size_than_announced_is_none() {
    let cache = Folder::new("hub-size");
    let server = HubServer::start(&[("model.safetensors", &[7; 1000]), ("a.json", &[b' '; 100])]);
    let announced =
        |size| move |request: &Request| (request.method == "HEAD").then_some(Fault::Announce(size));
    server.fail(announced(1001));
    let error = problem(hub_download("org/net", "main", "model.safetensors", opts(&server, &cache)));
    assert!(matches!(error, HubProblem::Incomplete { arrived: 1000, size: 1001, .. }), "{error}");
    server.fail(announced(99));
    let error = problem(hub_download("org/net", "main", "a.json", opts(&server, &cache)));
    assert!(error.to_string().contains("more than the 99 bytes announced"), "{error}");
    assert_eq!(in_snapshots(&cache), 0);
}

#[test]
fn a_large_file_has_the_hash_that_it_is_called_by() {
    let (weights, cache) = (weights(), Folder::new("hub-hash"));
    let digest = ring::digest::digest(&ring::digest::SHA256, &weights);
    let right: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let right: &'static str = right.leak();
    let wrong: &'static str = "0".repeat(64).leak();
    let server = HubServer::start(&[("model.safetensors", &weights)]);
    for (etag, is_right) in [(wrong, false), (right, true)] {
        server.fail(move |request| (request.method == "HEAD").then_some(Fault::Etag(etag)));
        let found = hub_download("org/net", "main", "model.safetensors", opts(&server, &cache));
        assert_eq!(found.is_ok(), is_right);
        assert!(is_right || matches!(problem(found), HubProblem::Corrupt { .. }));
        assert_eq!(in_snapshots(&cache), usize::from(is_right));
    }
    let blobs = fs::read_dir(cache.file("models--org--net/blobs")).unwrap();
    assert_eq!(blobs.count(), 1, "what was wrong is gone");
}

#[test]
fn what_the_hub_lacks_or_refuses_is_an_error_that_says_what_to_do() {
    let cache = Folder::new("hub-refused");
    let server = HubServer::start(&[("config.json", b"{}")]);
    let get = |opts| hub_download("org/net", "main", "config.json", opts).unwrap_err().to_string();
    let cases = [
        (Fault::Status(404, "RepoNotFound"), "no such model"),
        (Fault::Status(404, "RevisionNotFound"), "no such revision"),
        (Fault::Status(401, "RepoNotFound"), "status 401: there is no such model, or it is private"),
        (Fault::Status(403, "GatedRepo"), "accept the terms on the model's page"),
        (Fault::Status(429, ""), "too many requests"),
        (Fault::Status(503, ""), "status 503: the hub has trouble"),
        (Fault::Status(301, ""), "without etag"),
        (Fault::Etag("../../x"), "without etag"),
    ];
    for (fault, expected) in cases {
        server.fail(move |_| Some(fault));
        let error = get(opts(&server, &cache).token(""));
        assert!(error.contains(expected), "{fault:?}: {error}");
        assert!(error.contains("/org/net/resolve/main/config.json: ") && error.contains("hub.rs"), "{error}");
    }
    server.fail(|_| Some(Fault::Status(401, "")));
    let error = get(opts(&server, &cache).token("hf_me"));
    assert!(error.contains("does not accept the token") && !error.contains("hf_me"), "{error}");
    assert_eq!(in_snapshots(&cache), 0);
}

#[test]
fn a_model_that_has_another_name_by_now_is_found_by_both() {
    let (weights, cache) = (weights(), Folder::new("hub-renamed"));
    let server = HubServer::start(&[("model.safetensors", &weights)]);
    let path = hub_download("old/net", "main", "model.safetensors", opts(&server, &cache)).unwrap();
    assert!(fs::read(path).unwrap() == weights);
    let hub = "/org/net/resolve/main/model.safetensors";
    assert_eq!(
        server.lines()[..2],
        ["HEAD /old/net/resolve/main/model.safetensors".into(), format!("HEAD {hub}")]
    );
}

#[test]
fn that_a_model_has_no_such_file_is_remembered() {
    let cache = Folder::new("hub-absent");
    let server = HubServer::start(&[("config.json", b"{}")]);
    let get = |file| hub_download("org/net", "main", file, opts(&server, &cache));
    get("config.json").unwrap();
    server.requests();
    for requests in [1, 0] {
        assert!(matches!(problem(get("chat_template.jinja")), HubProblem::Missing { .. }));
        assert_eq!(server.lines().len(), requests);
    }
    assert!(cache.file(&format!("models--org--net/.no_exist/{COMMIT}/chat_template.jinja")).exists());
}

#[test]
fn a_hub_that_does_not_answer_is_an_error_soon() {
    let cache = Folder::new("hub-silent");
    let silent = HubServer::start(&[("config.json", b"{}")]);
    silent.fail(|_| Some(Fault::Silence));
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for address in [silent.address(), format!("http://{nobody}"), "http://host.invalid".into()] {
        let opts = opts(&silent, &cache).endpoint(address).timeout(Duration::from_millis(500));
        let start = Instant::now();
        let error = problem(hub_download("org/net", "main", "config.json", opts));
        assert!(matches!(error, HubProblem::Unreachable { .. }), "{error}");
        assert!(start.elapsed() < Duration::from_secs(10));
    }
}

#[test]
fn names_and_settings_that_make_no_sense_are_refused() {
    let cache = Folder::new("hub-names");
    let server = HubServer::start(&[]);
    let names =
        [("..", "main", "a"), ("org/net", "../..", "a"), ("org/net", "main", "../a"), ("", "main", "a")];
    for (model, revision, file) in names {
        let error = hub_download(model, revision, file, opts(&server, &cache)).unwrap_err();
        assert!(error.to_string().contains("inside the cache"), "{error}");
    }
    let wrong = [opts(&server, &cache).endpoint("huggingface.co"), opts(&server, &cache).token("a\nb: c")];
    for (opts, expected) in wrong.into_iter().zip(["such as https://huggingface.co", "of ASCII"]) {
        let error = hub_download("org/net", "main", "a", opts).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert_eq!(server.lines(), Vec::<String>::new());
    let odd = problem(hub_download("org/net", "refs/pr/1", "a b?.json", opts(&server, &cache)));
    assert!(matches!(odd, HubProblem::Missing { .. }), "{odd}");
    assert_eq!(server.lines(), ["HEAD /org/net/resolve/refs%2Fpr%2F1/a%20b%3F.json"]);
}

#[test]
fn who_downloads_the_same_file_waits_and_takes_it() {
    let (weights, cache) = (weights(), Folder::new("hub-together"));
    let server = HubServer::start(&[("model.safetensors", &weights)]);
    let get = || hub_download("org/net", "main", "model.safetensors", opts(&server, &cache));
    thread::scope(|scope| {
        let all: Vec<_> = (0..4).map(|_| scope.spawn(get)).collect();
        all.into_iter().for_each(|it| assert!(fs::read(it.join().unwrap().unwrap()).unwrap() == weights));
    });
    let sent = server.lines().iter().filter(|line| line.contains("/cdn/")).count();
    assert_eq!(sent, 1);
}

#[test]
fn a_process_that_holds_a_file_and_gets_nothing_is_not_waited_for_forever() {
    let cache = Folder::new("hub-busy");
    let server = HubServer::start(&[("config.json", b"{}")]);
    let locks = cache.file(".locks/models--org--net");
    fs::create_dir_all(&locks).unwrap();
    let held = fs::File::create(locks.join(format!("{}.lock", etag(b"{}")))).unwrap();
    held.lock().unwrap();
    let get = || {
        hub_download(
            "org/net",
            "main",
            "config.json",
            opts(&server, &cache).timeout(Duration::from_millis(300)),
        )
    };
    assert!(matches!(problem(get()), HubProblem::Busy { .. }));
    drop(held);
    assert_eq!(fs::read(get().unwrap()).unwrap(), b"{}");
}
