//! Events, as TensorFlow's `event.proto`, `summary.proto`, `histogram.proto` and `tensor.proto` number their
//! fields.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::io::tensorboard::histogram::Histogram;
use crate::io::tensorboard::image::Image;
use crate::io::tensorboard::message::Message;

/// `DataType.DT_STRING`.
const STRING: i64 = 7;

/// One value of a summary.
#[derive(Debug)]
pub(super) enum Value {
    Scalar(f32),
    Histogram(Histogram),
    Image(Image),
    /// Markdown.
    Text(String),
}

fn event() -> Message {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Message::new().double(1, now.as_secs_f64())
}

/// The first event of a file.
pub(super) fn version() -> Vec<u8> {
    event().text(3, b"brain.Event:2").bytes()
}

/// An event with one value.
pub(super) fn summary(tag: &str, value: &Value, step: i64) -> Vec<u8> {
    let named = Message::new().text(1, tag.as_bytes());
    let named = match value {
        Value::Scalar(value) => named.float(2, *value),
        Value::Image(image) => named.message(4, self::image(image)),
        Value::Histogram(histogram) => named.message(5, self::histogram(histogram)),
        Value::Text(text) => {
            let plugin = Message::new().text(1, b"text");
            named.message(8, self::text(text)).message(9, Message::new().message(1, plugin))
        }
    };
    event().int(2, step).message(5, Message::new().message(1, named)).bytes()
}

fn image(image: &Image) -> Message {
    let (height, width) = (i64::from(image.height), i64::from(image.width));
    Message::new().int(1, height).int(2, width).int(3, image.channels as i64).text(4, &image.png)
}

fn histogram(histogram: &Histogram) -> Message {
    let sums = Message::new().double(1, histogram.min).double(2, histogram.max).double(3, histogram.count);
    let sums = sums.double(4, histogram.sum).double(5, histogram.sum_of_squares);
    sums.doubles(6, &histogram.limits).doubles(7, &histogram.counts)
}

/// A tensor of one string.
fn text(text: &str) -> Message {
    let dim = Message::new().int(1, 1);
    Message::new().int(1, STRING).message(2, Message::new().message(2, dim)).text(8, text.as_bytes())
}
