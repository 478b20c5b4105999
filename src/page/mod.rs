//! Plans and profiles as pages for a browser: one file each, which loads nothing else.
//!
//! - [`graph`]: kernels and transfers as boxes, what they read as edges.
//! - [`memory`]: which block of memory holds what, from which step to which.
//! - [`texts`]: sources and lines, once each.
//! - `web/`: the page itself. It reads the data, which are JSON inside it, and draws them.

mod graph;
mod memory;
mod plan;
mod profile;
mod profile_memory;
mod texts;

use crate::profile::json::{Object, list};

/// The scripts, in the order in which they use each other.
const SCRIPTS: &[&str] = &[
    include_str!("web/format.js"),
    include_str!("web/element.js"),
    include_str!("web/viewport.js"),
    include_str!("web/model.js"),
    include_str!("web/diff.js"),
    include_str!("web/detail.js"),
    include_str!("web/layout.js"),
    include_str!("web/graph.js"),
    include_str!("web/chart.js"),
    include_str!("web/memory.js"),
    include_str!("web/timeline.js"),
    include_str!("web/table.js"),
    include_str!("web/main.js"),
];

/// A page of what is looked at; with what it is compared to, if that is given, before it.
fn html(title: &str, sides: &[Object]) -> String {
    let data = Object::new()
        .text("title", title)
        .text("version", env!("CARGO_PKG_VERSION"))
        .value("sides", list(sides.iter().map(Object::text_so_far)));
    // A `<` could end the element that the data are in.
    let data = data.end().replace('<', "\\u003c");
    let page = include_str!("web/page.html");
    let parts = [("STYLE", include_str!("web/page.css")), ("SCRIPT", &SCRIPTS.join("\n")), ("DATA", &data)];
    parts.iter().fold(page.to_string(), |page, (name, text)| page.replacen(&format!("/*{name}*/"), text, 1))
}
