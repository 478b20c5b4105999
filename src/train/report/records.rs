//! The records of a training in its page, where a training that is resumed finds them.

use crate::train::metric::Scores;
use crate::train::record::{Phase, Record};

/// Before the records, and after.
const BEGIN: &str = "<script type=\"text/tab-separated-values\" id=\"records\">\n";
const END: &str = "</script>\n";

/// Records as a part of a page: one a line, the names and values of its numbers at the end.
pub(super) fn written(records: &[Record]) -> String {
    let line = |Record { phase, epoch, step, seconds, scores }: &Record| {
        let number = |(name, value): &(String, f64)| format!("\t{}\t{value:?}", encoded(name));
        let numbers: String = scores.values.iter().map(number).collect();
        format!("{}\t{epoch}\t{step}\t{seconds:?}{numbers}\n", phase.name())
    };
    let lines: String = records.iter().map(line).collect();
    format!("{BEGIN}{lines}{END}")
}

/// The records of a page; none where there are no such.
pub(super) fn read(page: &str) -> Vec<Record> {
    let inside = page.split_once(BEGIN).and_then(|(_, rest)| rest.split_once(END));
    inside.map_or_else(Vec::new, |(lines, _)| lines.lines().filter_map(record).collect())
}

fn record(line: &str) -> Option<Record> {
    let mut fields = line.split('\t');
    let name = fields.next()?;
    let phase = [Phase::Train, Phase::Validation].into_iter().find(|phase| phase.name() == name)?;
    let (epoch, step) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    let seconds = fields.next()?.parse().ok()?;
    let mut scores = Scores::default();
    while let Some(name) = fields.next() {
        scores.values.push((decoded(name), fields.next()?.parse().ok()?));
    }
    Some(Record { phase, epoch, step, seconds, scores })
}

/// What ends a field, a line or the part, and what stands for it; first what begins all of these.
const CODES: [(&str, &str); 5] = [("%", "%25"), ("\t", "%09"), ("\n", "%0A"), ("\r", "%0D"), ("<", "%3C")];

fn encoded(name: &str) -> String {
    CODES.iter().fold(name.to_string(), |text, (plain, code)| text.replace(plain, code))
}

fn decoded(name: &str) -> String {
    CODES.iter().rev().fold(name.to_string(), |text, (plain, code)| text.replace(code, plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_whatever_their_numbers_are_called() {
        let record = |phase, values| Record {
            phase,
            epoch: 3,
            step: 70,
            seconds: 0.1 + 0.2,
            scores: Scores { values, ..Scores::default() },
        };
        let odd = vec![("</script>\t%09\n".to_string(), f64::INFINITY), ("".into(), -1e-300)];
        let records = [record(Phase::Train, odd), record(Phase::Validation, vec![])];
        assert_eq!(read(&format!("<p>{}</p>", written(&records))), records);
        assert_eq!(read("<p>another page</p>"), []);
        assert_eq!(read(&written(&records).replace("-1e-300", "much")), records[1..]);
    }
}
