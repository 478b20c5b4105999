//! kiln in a page of a browser: what the page's script calls.

#[cfg(feature = "chat")]
mod chat;
#[cfg(feature = "corpus")]
mod corpus;
#[cfg(feature = "corpus")]
mod random;
#[cfg(feature = "chat")]
mod sources;
mod training;

use kiln::prelude::*;
use wasm_bindgen::JsError;
use wasm_bindgen::prelude::wasm_bindgen;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = console)]
    fn error(text: &str);
}

/// Called when the page has loaded the library: a panic is told on the console.
#[wasm_bindgen(start)]
fn start() {
    std::panic::set_hook(Box::new(|panic| error(&panic.to_string())));
}

type Result<T> = std::result::Result<T, JsError>;

/// Opens a device: `cpu`, or `wgpu:0` for the browser's GPU.
///
/// # Errors
/// There is none.
#[wasm_bindgen]
pub async fn open(device: String) -> Result<()> {
    device.parse::<Device>()?.open_async().await?;
    Ok(())
}

/// What an opened device is, a line for each fact: its name, a tab, and what it is.
///
/// # Errors
/// It is not open.
#[wasm_bindgen]
pub fn facts(device: String) -> Result<String> {
    let device: Device = device.parse()?;
    let (properties, memory) = (device.properties()?, kiln::context().memory(device)?);
    let kib = |bytes: u64| bytes as f64 / 1024.0;
    let types: Vec<String> = properties.dtypes.iter().map(DType::to_string).collect();
    let facts = [
        ("Device", device.to_string()),
        ("Adapter", properties.name),
        ("Through", properties.capability),
        ("Driver", properties.driver),
        ("Types", types.join(", ")),
        ("Buffers of a kernel", format!("{} at most", properties.max_bindings)),
        (
            "Memory",
            format!("{:.1} KiB in use, {:.1} at most so far", kib(memory.allocated), kib(memory.peak)),
        ),
    ];
    let told = facts.iter().filter(|(_, fact)| !fact.is_empty());
    Ok(told.map(|(name, fact)| format!("{name}\t{fact}\n")).collect())
}

/// What a file by address holds: of each tensor that has numbers its name, a space and their sum on a device that
/// is open.
///
/// # Errors
/// The file's, with its address.
#[cfg(all(feature = "chat", feature = "corpus"))]
#[wasm_bindgen]
pub async fn sums(address: String, device: String) -> Result<Vec<String>> {
    let device: Device = device.parse()?;
    let file = sources::Address::new(address.clone());
    let state = match address.ends_with(".gguf") {
        true => kiln::io::gguf::Gguf::open_async(file).await?.into_state(),
        false => kiln::StateDict::open_async(file).await?,
    };
    let mut sums = Vec::new();
    for (name, tensor) in state.iter() {
        let sum = tensor.to(device).to_dtype(DType::F32).sum(..).item_async::<f32>().await?;
        sums.push(format!("{name} {sum}"));
    }
    Ok(sums)
}

/// What a call that waits for a device says in a page.
#[cfg(feature = "corpus")]
#[wasm_bindgen]
pub fn blocking(device: String) -> Result<String> {
    let device: Device = device.parse()?;
    let waited = Tensor::ones([2], device).sum(..).item::<f32>();
    Ok(waited.map_or_else(|error| error.to_string(), |value| value.to_string()))
}
