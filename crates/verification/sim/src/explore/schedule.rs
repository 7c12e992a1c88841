//! Schedules as text.

/// Picks as text: a digit of base 36 each; a run of zeros, which is what most of a schedule is, as
/// its length in angle brackets.
pub(super) fn encode(picks: &[usize]) -> String {
    let mut text = String::new();
    let mut zeros = 0;
    let flush = |text: &mut String, zeros: &mut usize| {
        match *zeros {
            0..4 => text.push_str(&"0".repeat(*zeros)),
            many => text.push_str(&format!("<{many}>")),
        }
        *zeros = 0;
    };
    for &pick in picks {
        match u32::try_from(pick).ok().and_then(|pick| char::from_digit(pick, 36)) {
            Some('0') => zeros += 1,
            Some(digit) => {
                flush(&mut text, &mut zeros);
                text.push(digit);
            }
            None => {
                flush(&mut text, &mut zeros);
                text.push_str(&format!("({pick})"));
            }
        }
    }
    // Picks that are missing at the end are zeros.
    text
}

pub(super) fn decode(schedule: &str) -> Result<Vec<usize>, String> {
    let mut picks = Vec::new();
    let mut rest = schedule;
    while let Some(first) = rest.chars().next() {
        let closing = match first {
            '<' => Some('>'),
            '(' => Some(')'),
            _ => None,
        };
        let number = |text: &str| {
            text.parse::<usize>().map_err(|_| format!("{text:?} in the schedule is not a number"))
        };
        match closing {
            Some(closing) => {
                let (inside, after) = rest[1..]
                    .split_once(closing)
                    .ok_or_else(|| format!("{first:?} in the schedule is never closed"))?;
                match first {
                    '<' => picks.extend(std::iter::repeat_n(0, number(inside)?.min(1 << 20))),
                    _ => picks.push(number(inside)?),
                }
                rest = after;
            }
            None => {
                let digit = first
                    .to_digit(36)
                    .ok_or_else(|| format!("{first:?} has no meaning in a schedule"))?;
                picks.push(digit as usize);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    Ok(picks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_survives_writing_it_down() {
        for picks in [
            vec![],
            vec![1, 0, 0, 35, 36, 2],
            vec![0; 50],
            [vec![0; 9], vec![3], vec![0; 2], vec![1]].concat(),
        ] {
            let decoded = decode(&encode(&picks)).unwrap();
            let trimmed = |mut picks: Vec<usize>| {
                while picks.last() == Some(&0) {
                    picks.pop();
                }
                picks
            };
            assert_eq!(trimmed(decoded), trimmed(picks));
        }
        for bad in ["<", "<x>", "(", "!", "(a)"] {
            assert!(decode(bad).is_err(), "{bad}");
        }
    }
}
