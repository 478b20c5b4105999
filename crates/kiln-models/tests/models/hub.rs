//! Models of the Hugging Face hub: all files that a folder needs, and those of the rest that are there.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use kiln::io::HubOpts;
use kiln::io::gguf::{Gguf, GgufValue};
use kiln_models::{Checkpoint, locate};

use crate::hub_server::{COMMIT, Fault, HubServer, Request};
use crate::record::recorded;

/// A cache that goes when the test ends.
struct Cache(PathBuf);

impl Cache {
    fn new(name: &str) -> Cache {
        let folder = std::env::temp_dir().join(format!("kiln-models-hub-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        Cache(folder)
    }
    fn opts(&self, server: &HubServer) -> HubOpts {
        let opts = HubOpts::default().endpoint(server.address()).timeout(Duration::from_secs(5));
        opts.cache(self.0.clone())
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_model_comes_with_the_files_that_it_has() {
    let folder = recorded("llama").saved("hub_llama");
    let file = |name: &str| fs::read(folder.join(name)).unwrap();
    let (config, weights) = (file("config.json"), file("model.safetensors"));
    let files: [(&str, &[u8]); 3] =
        [("config.json", &config), ("model.safetensors", &weights), ("tokenizer_config.json", b"{}")];
    let (server, cache) = (HubServer::start(&files), Cache::new("plain"));
    let open = |opts| Checkpoint::from_hub("org/net", "main", opts);
    let found = open(cache.opts(&server)).unwrap();
    let expected = Checkpoint::open(&folder).unwrap();
    let names = |checkpoint: &Checkpoint| {
        checkpoint.state().iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(&found), names(&expected));
    assert!(found.path().ends_with(COMMIT) && found.path().join("tokenizer_config.json").exists());
    assert!(!found.path().join("chat_template.jinja").exists(), "the model has none");
    let one_commit =
        |request: &Request| request.path.contains(COMMIT) || request.path.ends_with("main/config.json");
    assert!(server.requests().iter().all(one_commit));

    open(cache.opts(&server)).unwrap();
    open(cache.opts(&server).offline(true)).unwrap();
    assert_eq!(server.lines(), Vec::<String>::new(), "all is in the cache, and what is not there is known");
}

#[test]
fn weights_in_several_files_are_all_fetched() {
    let (folder, record) = (Cache::new("shards"), recorded("llama"));
    fs::create_dir_all(&folder.0).unwrap();
    record.state().save_sharded(folder.0.join("model.safetensors"), 4096).unwrap();
    let names: Vec<String> = fs::read_dir(&folder.0)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let contents: Vec<Vec<u8>> = names.iter().map(|name| fs::read(folder.0.join(name)).unwrap()).collect();
    let mut files: Vec<(&str, &[u8])> =
        names.iter().map(String::as_str).zip(contents.iter().map(Vec::as_slice)).collect();
    assert!(files.len() > 3, "{names:?}");
    files.push(("config.json", record.text.as_bytes()));
    let (server, cache) = (HubServer::start(&files), Cache::new("sharded"));
    let found = Checkpoint::from_hub("org/net", COMMIT, cache.opts(&server)).unwrap();
    assert_eq!(found.state().len(), record.state().len());
}

#[test]
fn a_file_of_llama_cpp_comes_alone() {
    let mut gguf = Gguf::new();
    gguf.set("general.architecture", "llama".into());
    let place = Cache::new("gguf-made");
    fs::create_dir_all(&place.0).unwrap();
    gguf.save(place.0.join("m.gguf")).unwrap();
    let content = fs::read(place.0.join("m.gguf")).unwrap();
    let (server, cache) = (HubServer::start(&[("sub/m.gguf", &content)]), Cache::new("gguf"));
    let found = Checkpoint::from_hub("org/net/sub/m.gguf", "main", cache.opts(&server)).unwrap();
    assert!(found.gguf().is_some());
    assert!(server.requests().iter().all(|request| request.path.ends_with("m.gguf")));
}

#[test]
fn all_files_that_a_model_of_llama_cpp_is_divided_among_are_fetched() {
    let place = Cache::new("split-made");
    fs::create_dir_all(&place.0).unwrap();
    let content = |number: u16| {
        let mut gguf = Gguf::new();
        gguf.set("general.architecture", "llama".into());
        gguf.set("split.no", GgufValue::U16(number));
        gguf.set("split.count", GgufValue::U16(2));
        gguf.insert(&format!("t{number}"), &kiln::Tensor::zeros([1], ())).unwrap();
        gguf.save(place.0.join("part")).unwrap();
        fs::read(place.0.join("part")).unwrap()
    };
    let (first, second) = (content(0), content(1));
    let names = ["q8/m-00001-of-00002.gguf", "q8/m-00002-of-00002.gguf"];
    let server = HubServer::start(&[(names[0], &first), (names[1], &second)]);
    let cache = Cache::new("split");
    let found = Checkpoint::from_hub(&format!("org/net/{}", names[0]), "main", cache.opts(&server)).unwrap();
    assert_eq!(found.state().len(), 2);
    let asked: Vec<String> = server.requests().iter().map(|request| request.path.clone()).collect();
    let other = asked.iter().find(|path| path.ends_with(names[1])).unwrap();
    assert!(other.contains(COMMIT), "the same commit: {other}");
}

#[test]
fn what_a_model_needs_and_the_hub_does_not_give_is_an_error() {
    let (server, cache) = (HubServer::start(&[("config.json", b"{}")]), Cache::new("lacks"));
    let open = || Checkpoint::from_hub("org/net", "main", cache.opts(&server)).unwrap_err().to_string();
    let error = open();
    assert!(error.contains("model.safetensors: status 404") && error.contains("models/hub.rs"), "{error}");
    server.fail(|request| request.path.ends_with(".index.json").then_some(Fault::Status(503, "")));
    let index = "{\"weight_map\": {\"a\": \"../../a\"}}";
    fs::remove_dir_all(&cache.0).unwrap();
    assert!(open().contains("status 503"), "only a file that is not there may be missing");
    let server =
        HubServer::start(&[("config.json", b"{}"), ("model.safetensors.index.json", index.as_bytes())]);
    let error = Checkpoint::from_hub("org/net", "main", cache.opts(&server)).unwrap_err().to_string();
    assert!(error.contains("inside the cache"), "{error}");
}

#[test]
fn pytorch_files_are_fetched_where_there_are_no_others() {
    let torch = format!("{}/../../tests/files/recorded/protocol4.pt", env!("CARGO_MANIFEST_DIR"));
    let torch = fs::read(torch).unwrap();
    let server = HubServer::start(&[("config.json", b"{}"), ("pytorch_model.bin", &torch)]);
    let cache = Cache::new("torch");
    let found = Checkpoint::from_hub("org/net", "main", cache.opts(&server)).unwrap();
    assert!(found.state().get("x").is_some());
    let (server, cache) = (HubServer::start(&[("config.json", b"{}")]), Cache::new("none"));
    let error = Checkpoint::from_hub("org/net", "main", cache.opts(&server)).unwrap_err().to_string();
    assert!(error.contains("model.safetensors"), "{error}");
}

#[test]
fn addresses_are_paths_or_of_the_hub() {
    assert_eq!(locate("some/folder").unwrap(), PathBuf::from("some/folder"));
    for wrong in ["hf://", "hf://name", "hf://org/name/model.bin", "hf://org/name/file.safetensors@main"] {
        let error = locate(wrong).unwrap_err().to_string();
        assert!(error.contains("expected hf://org/name"), "{error}");
    }
    let error = locate("hf://org/../m.gguf").unwrap_err().to_string();
    assert!(error.contains("inside the cache"), "{error}");
}
