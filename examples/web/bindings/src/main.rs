//! Writes the script through which a page calls a compiled library: `kiln-web-bindings LIBRARY.wasm FOLDER`.

use wasm_bindgen_cli_support::Bindgen;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (Some(library), Some(folder)) = (arguments.next(), arguments.next()) else {
        eprintln!("kiln-web-bindings LIBRARY.wasm FOLDER");
        std::process::exit(2);
    };
    let mut bindgen = Bindgen::new();
    bindgen.input_path(library).typescript(false).omit_default_module_path(false);
    // Half a megabyte that only a debugger reads.
    bindgen.remove_name_section(true).remove_producers_section(true);
    let made = bindgen.web(true).and_then(|bindgen| bindgen.generate(folder));
    if let Err(error) = made {
        eprintln!("{error:#}");
        std::process::exit(1);
    }
}
