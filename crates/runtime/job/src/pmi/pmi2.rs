//! PMI-2: six characters that say how long a message is, then `cmd=NAME;key=value;…`, in which a
//! doubled semicolon stands for one.

use crate::pmi::channel::{Channel, field, negotiate, without_value};
use crate::pmi::{Error, Result, Session};

/// The length that every server takes; the protocol has no question for it.
const VALUE_BYTES_MAX: usize = 1000;

pub(crate) struct Pmi2 {
    channel: Channel,
    job: String,
    rank: u32,
    size: u32,
}

impl Pmi2 {
    pub(crate) fn open(mut channel: Channel, job: &str, rank: u32) -> Result<Pmi2> {
        negotiate(&mut channel, 2, 0)?;
        let mut session = Pmi2 { channel, job: job.to_owned(), rank, size: 0 };
        let hello = format!("cmd=fullinit;pmijobid={job};pmirank={rank};threaded=FALSE;");
        let answer = session.ask(&hello, "fullinit-response")?;
        let number = |name: &str| field(&answer, name).and_then(|text| text.parse().ok());
        let missing = || {
            Error("the launcher's greeting in PMI-2 lacks the rank or the size of the job".into())
        };
        session.rank = number("rank").ok_or_else(missing)?;
        session.size = number("size").ok_or_else(missing)?;
        Ok(session)
    }

    fn ask(&mut self, question: &str, expected: &str) -> Result<Vec<(String, String)>> {
        self.channel.write(&format!("{:6}{question}", question.len()))?;
        let length = self.channel.bytes(6)?;
        let length = length
            .trim()
            .parse()
            .map_err(|_| Error(format!("the launcher's message has the length {length:?}")))?;
        let answer = self.channel.bytes(length)?;
        let fields = fields(&answer);
        let is_good = field(&fields, "cmd") == Some(expected)
            && field(&fields, "rc").is_none_or(|code| code == "0");
        if !is_good {
            let question = without_value(question);
            return Err(Error(format!("the launcher answers {answer:?} to {question:?} in PMI-2")));
        }
        Ok(fields)
    }
}

impl Session for Pmi2 {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn value_bytes_max(&self) -> usize {
        VALUE_BYTES_MAX
    }

    fn put(&mut self, key: &str, value: &str) -> Result<()> {
        self.ask(&format!("cmd=kvs-put;key={key};value={value};"), "kvs-put-response").map(drop)
    }

    fn fence(&mut self) -> Result<()> {
        self.ask("cmd=kvs-fence;", "kvs-fence-response").map(drop)
    }

    fn get(&mut self, _: u32, key: &str) -> Result<String> {
        let question = format!("cmd=kvs-get;jobid={};srcid=-1;key={key};", self.job);
        let answer = self.ask(&question, "kvs-get-response")?;
        match (field(&answer, "found"), field(&answer, "value")) {
            (Some(found), Some(value)) if found.eq_ignore_ascii_case("true") => {
                Ok(value.to_owned())
            }
            _ => Err(Error(format!("the launcher has no value of {key:?}"))),
        }
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.ask("cmd=finalize;", "finalize-response").map(drop)
    }
}

fn fields(message: &str) -> Vec<(String, String)> {
    let mut fields = vec![String::new()];
    let mut characters = message.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            ';' if characters.next_if_eq(&';').is_none() => fields.push(String::new()),
            other => fields.last_mut().expect("there is always one").push(other),
        }
    }
    let split = |field: &String| {
        field.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
    };
    fields.iter().filter_map(split).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doubled_semicolon_ends_no_field() {
        let fields = fields("cmd=kvs-get-response;found=TRUE;value=a;;b=c;rc=0;");
        assert_eq!(field(&fields, "value"), Some("a;b=c"));
        assert_eq!(field(&fields, "rc"), Some("0"));
    }
}
