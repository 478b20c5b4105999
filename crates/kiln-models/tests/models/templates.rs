//! Chat templates with what those of published models call.

use kiln_models::{ChatTemplate, Message};

fn filled(text: &str) -> kiln_models::Result<String> {
    let messages = [Message::new("user", "Why?"), Message::new("assistant", " So. ")];
    ChatTemplate::new(text, Some("<s>".into()), None)?.fill(&messages)
}

#[test]
fn what_only_training_asks_for_changes_nothing() {
    let text = "{{ bos_token }}\n{%- for m in messages %}\n  [{{ m.role }}]\n  {%- generation -%}\n    \
        {{ m.content | trim }}\n  {%-endgeneration%}\n{% endfor %}";
    let plain = text.replace("- generation -", "- if true -").replace("-endgeneration", "-endif");
    assert_eq!(filled(text).unwrap(), filled(&plain).unwrap());
    assert_eq!(filled(text).unwrap(), "<s>  [user]Why?  [assistant]So.");
    // Words of that name elsewhere stay.
    assert_eq!(filled("{% set generation = 'generation {%' %}{{ generation }}").unwrap(), "generation {%");
}

#[test]
fn templates_know_the_date() {
    let date = filled("{{ strftime_now('%Y-%m-%d') }}").unwrap();
    let parts: Vec<u32> = date.split('-').map(|part| part.parse().unwrap()).collect();
    assert!(parts[0] >= 2026 && (1..=12).contains(&parts[1]) && (1..=31).contains(&parts[2]), "{date}");
    let error = filled("{{ strftime_now('%!') }}").unwrap_err().to_string();
    assert!(error.starts_with("chat template: invalid operation"), "{error}");
}

#[test]
fn templates_may_refuse_messages() {
    let error = filled("{{ raise_exception('only users') }}").unwrap_err().to_string();
    assert!(error.contains("only users"), "{error}");
}
