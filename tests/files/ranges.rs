//! Files that are read by ranges: what a mapped file gives, read once, or an error that names the address.

use std::cell::RefCell;
use std::io::{Error as IoError, Result as IoResult};

use kiln::LoadOpts;
use kiln::io::RangeReader;
use kiln::io::gguf::Gguf;
use kiln::nn::{Linear, ModuleExt};
use pollster::block_on;

use super::mutated::Numbers;
use super::*;

const ADDRESS: &str = "https://models.example/model";

/// A server that has some bytes, says that it has as many, and remembers what was asked of it.
struct Server<'a> {
    bytes: &'a [u8],
    size: u64,
    asked: &'a RefCell<Vec<(usize, usize)>>,
}

impl RangeReader for Server<'_> {
    fn name(&self) -> String {
        ADDRESS.into()
    }
    async fn size(&mut self) -> IoResult<u64> {
        if self.bytes.is_empty() { Err(IoError::other("404 Not Found")) } else { Ok(self.size) }
    }
    async fn read(&mut self, start: u64, into: &mut [u8]) -> IoResult<()> {
        self.asked.borrow_mut().push((start as usize, start as usize + into.len()));
        self.bytes.read(start, into).await
    }
}

fn served<T>(bytes: &[u8], size: usize, open: impl FnOnce(Server) -> T) -> (T, Vec<(usize, usize)>) {
    let asked = RefCell::default();
    let opened = open(Server { bytes, size: size as u64, asked: &asked });
    (opened, asked.into_inner())
}

fn recorded(name: &str) -> Vec<u8> {
    fs::read(Path::new("tests/files/recorded").join(name)).unwrap()
}

/// Opens a file of either format by ranges.
fn open(server: Server, name: &str) -> kiln::Result<StateDict> {
    match name.ends_with(".gguf") {
        true => block_on(Gguf::open_async(server)).map(Gguf::into_state),
        false => block_on(StateDict::open_async(server)),
    }
}

/// All that a state holds.
fn contents(state: &StateDict) -> Vec<(String, String, Vec<u8>)> {
    let mut raw = state.clone();
    raw.convert().unwrap();
    let tensors = raw.iter().map(|(name, tensor)| {
        let values = tensor.to_vec::<f32>().unwrap_or_default();
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        (name.into(), format!("{}{}", tensor.dtype(), tensor.shape()), bytes)
    });
    let kept = state.raw_tensors().map(|(name, raw)| (name.into(), format!("{raw:?}"), raw.bytes().to_vec()));
    tensors.chain(kept).collect()
}

#[test]
fn what_is_read_by_ranges_is_what_is_mapped_and_no_byte_comes_twice() {
    let folder = Folder::new("ranges");
    for name in ["blocks.safetensors", "small.gguf"] {
        let bytes = recorded(name);
        let path = folder.put(name, &bytes);
        let mapped = if name.ends_with(".gguf") {
            StateDict::open_gguf(&path).unwrap()
        } else {
            StateDict::open(&path).unwrap()
        };
        let (read, asked) = served(&bytes, bytes.len(), |server| open(server, name).unwrap());
        assert_eq!(contents(&read), contents(&mapped), "{name}");
        assert_eq!(read.metadata(), mapped.metadata());
        // The first read takes in some data with the header; those come again, the others once.
        let tensors: Vec<_> = asked.iter().skip_while(|(start, _)| *start == 0).collect();
        assert!(tensors.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{name}: {asked:?}");
    }
}

#[test]
fn a_header_longer_than_the_first_read_is_read_on() {
    let names: Vec<String> = (0..3000).map(|i| format!("a.name.of.some.length.{i}")).collect();
    let (mut state, mut gguf) = (StateDict::new(), Gguf::new());
    for name in &names {
        state.insert(name, &Tensor::from([1f32])).unwrap();
        gguf.insert(name, &Tensor::from([1f32])).unwrap();
    }
    let folder = Folder::new("long-header");
    state.save(folder.file("a.safetensors")).unwrap();
    gguf.save(folder.file("a.gguf")).unwrap();
    for name in ["a.safetensors", "a.gguf"] {
        let bytes = fs::read(folder.file(name)).unwrap();
        let (read, asked) = served(&bytes, bytes.len(), |server| open(server, name).unwrap());
        assert_eq!(read.len(), 3000);
        let heads = asked.len() - 3000;
        assert!((2..6).contains(&heads), "{name}: {heads} reads of the header");
        assert!(asked[..heads].windows(2).all(|pair| pair[0].1 == pair[1].0));
    }
}

#[test]
fn every_error_names_the_address_and_the_callers_line() {
    let (safetensors, gguf) = (recorded("blocks.safetensors"), recorded("small.gguf"));
    let half = |bytes: &[u8]| bytes[..bytes.len() / 2].to_vec();
    let cases = [
        ("a", Vec::new(), 100, "404 Not Found"),
        ("a", half(&safetensors), safetensors.len(), "unexpected end of file"),
        ("a", half(&safetensors), safetensors.len() / 2, "bytes of data, and"),
        ("a", b"<html>no such model</html>".to_vec(), 26, "an HTML page"),
        ("a", gguf.clone(), gguf.len(), "StateDict::open_gguf"),
        ("a", b"1234".to_vec(), 4, "4 bytes are too few"),
        ("a.gguf", Vec::new(), 100, "404 Not Found"),
        ("a.gguf", half(&gguf), gguf.len(), "unexpected end of file"),
        ("a.gguf", half(&gguf), gguf.len() / 2, "cut short"),
        ("a.gguf", gguf[..gguf.len() - 64].to_vec(), gguf.len() - 64, "its data end behind the file"),
        ("a.gguf", b"<html>no such model</html>".to_vec(), 26, "an HTML page"),
    ];
    for (name, bytes, size, expected) in cases {
        let (error, _) = served(&bytes, size, |server| open(server, name).unwrap_err());
        let Error::State { from, problems, span } = &error else { panic!("{error}") };
        assert_eq!((from.as_str(), span.file()), (ADDRESS, file!()));
        assert!(problems[0].to_string().contains(expected), "{expected:?} is not in: {error}");
        assert!(problems[0].to_string().contains(ADDRESS), "{error}");
    }
}

#[test]
fn damaged_files_are_read_and_refused_as_mapped_ones_are() {
    let folder = Folder::new("damaged-ranges");
    for (name, to) in [("blocks.safetensors", 1200), ("small.gguf", 400)] {
        let (whole, mut numbers, mut opened) = (recorded(name), Numbers(5), 0);
        for round in 0..400 {
            let damaged = numbers.damage(&whole, 0, to, false);
            let path = folder.put(name, &damaged);
            let mapped =
                if name.ends_with(".gguf") { StateDict::open_gguf(&path) } else { StateDict::open(&path) };
            let (read, _) = served(&damaged, damaged.len(), |server| open(server, name));
            opened += usize::from(read.is_ok());
            if damaged.is_empty() {
                continue;
            }
            let told = |result: &kiln::Result<StateDict>, from: &str| match result {
                Ok(state) => format!("{:?}", contents(state)),
                Err(error) => error.to_string().replace(from, ""),
            };
            let (mapped, read) = (told(&mapped, &path.display().to_string()), told(&read, ADDRESS));
            let line = |text: &str| text.lines().filter(|line| !line.contains(" at ")).collect::<String>();
            assert_eq!(line(&read), line(&mapped), "{name}: round {round}");
        }
        assert!((2..390).contains(&opened), "{name}: {opened} of 400 opened");
    }
}

#[test]
fn a_module_loads_by_address_or_is_as_it_was() {
    let net = Linear::new(2, 1, ());
    let folder = Folder::new("load-async");
    Linear::new(2, 1, ()).save(folder.file("net")).unwrap();
    let bytes = fs::read(folder.file("net")).unwrap();
    let before = net.weight.get().to_vec::<f32>().unwrap();
    let load = |server: Server| block_on(net.load_async(server, LoadOpts::default()));
    let (cut, _) = served(&bytes[..bytes.len() - 4], bytes.len(), load);
    assert!(cut.unwrap_err().to_string().contains(ADDRESS));
    assert_eq!(net.weight.get().to_vec::<f32>().unwrap(), before);
    let (report, _) = served(&bytes, bytes.len(), load);
    assert_eq!(report.unwrap().loaded, ["weight", "bias"]);
    let saved = StateDict::open(folder.file("net")).unwrap();
    let expected = saved.get("weight").unwrap().to_vec::<f32>().unwrap();
    assert_eq!(net.weight.get().to_vec::<f32>().unwrap(), expected);
}
