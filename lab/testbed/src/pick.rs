//! Picking a value out of JSON, for shell scripts on machines that have nothing else to do it with.

use std::io::Read;

use serde_json::Value;

/// Prints what `path` leads to in the JSON on standard input.
pub fn pick(path: &str) -> Result<(), String> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(|error| error.to_string())?;
    let whole: Value = serde_json::from_str(&text)
        .map_err(|error| format!("no JSON: {error}: {}", text.trim_end()))?;
    match follow(&whole, path).ok_or_else(|| format!("there is no {path} in {whole:#}"))? {
        Value::String(text) => println!("{text}"),
        value => println!("{value}"),
    }
    Ok(())
}

/// Steps are parted by `/`: the name of a field, the number of an element, or `FIELD=TEXT` for the
/// first element of which that is true.
fn follow<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('/').try_fold(value, |value, step| match (value, step.split_once('=')) {
        (Value::Array(elements), Some((field, wanted))) => elements
            .iter()
            .find(|element| element.get(field).and_then(Value::as_str) == Some(wanted)),
        (Value::Array(elements), None) => elements.get(step.parse::<usize>().ok()?),
        (value, _) => value.get(step),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_lead_through_fields_and_elements() {
        let value =
            json!({ "list": [{ "name": "a", "hz": 1 }, { "name": "b", "hz": { "of": 2.5 } }] });
        assert_eq!(follow(&value, "list/name=b/hz/of"), Some(&json!(2.5)));
        assert_eq!(follow(&value, "list/0/hz"), Some(&json!(1)));
        for nowhere in ["", "lists", "list/2", "list/name=c", "list/name", "list/name=a/hz/of"] {
            assert_eq!(follow(&value, nowhere), None, "{nowhere}");
        }
    }
}
