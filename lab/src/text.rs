//! Paragraphs.

/// The line length of the docs.
const WIDTH: usize = 120;

/// `words` in lines of at most 120 characters.
pub fn wrapped(words: &str) -> String {
    let (mut text, mut width) = (String::new(), 0);
    for word in words.split_whitespace() {
        let length = word.chars().count();
        if width > 0 && width + 1 + length > WIDTH {
            text.push('\n');
            width = 0;
        } else if width > 0 {
            text.push(' ');
            width += 1;
        }
        text.push_str(word);
        width += length;
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_wrapped_between_words() {
        let (short, long) = ("a  b", "x".repeat(WIDTH));
        assert_eq!(wrapped(short), "a b\n");
        assert_eq!(wrapped(&format!("{long} y")), format!("{long}\ny\n"));
    }
}
