//! PMI-1: one line for each question, one for its answer, `cmd=NAME key=value …`.

use crate::pmi::channel::{Channel, field, fields, negotiate, without_value};
use crate::pmi::{Error, Result, Session};

pub(crate) struct Pmi1 {
    channel: Channel,
    rank: u32,
    size: u32,
    space: String,
    value_bytes_max: usize,
}

impl Pmi1 {
    pub(crate) fn open(mut channel: Channel, rank: u32, size: u32) -> Result<Pmi1> {
        negotiate(&mut channel, 1, 1)?;
        let mut session = Pmi1 { channel, rank, size, space: String::new(), value_bytes_max: 0 };
        let maxes = session.ask("cmd=get_maxes\n", "maxes")?;
        let longest = field(&maxes, "vallen_max").and_then(|longest| longest.parse().ok());
        // The end of a string counts in some.
        session.value_bytes_max = longest.unwrap_or(256usize).saturating_sub(1).clamp(32, 4096);
        let space = session.ask("cmd=get_my_kvsname\n", "my_kvsname")?;
        let named = field(&space, "kvsname")
            .ok_or_else(|| Error("the launcher names no space for keys".into()))?;
        session.space = named.to_owned();
        Ok(session)
    }

    fn ask(&mut self, question: &str, expected: &str) -> Result<Vec<(String, String)>> {
        self.channel.write(question)?;
        let answer = self.channel.line()?;
        let fields = fields(&answer);
        let is_good = field(&fields, "cmd") == Some(expected)
            && field(&fields, "rc").is_none_or(|code| code.trim() == "0");
        if !is_good {
            let question = without_value(question.trim_end());
            return Err(Error(format!("the launcher answers {answer:?} to {question:?} in PMI-1")));
        }
        Ok(fields)
    }
}

impl Session for Pmi1 {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn value_bytes_max(&self) -> usize {
        self.value_bytes_max
    }

    fn put(&mut self, key: &str, value: &str) -> Result<()> {
        let question = format!("cmd=put kvsname={} key={key} value={value}\n", self.space);
        self.ask(&question, "put_result").map(drop)
    }

    fn fence(&mut self) -> Result<()> {
        self.ask("cmd=barrier_in\n", "barrier_out").map(drop)
    }

    fn get(&mut self, _: u32, key: &str) -> Result<String> {
        let question = format!("cmd=get kvsname={} key={key}\n", self.space);
        let answer = self.ask(&question, "get_result")?;
        let value = field(&answer, "value")
            .ok_or_else(|| Error(format!("the launcher has no value of {key:?}")))?;
        Ok(value.to_owned())
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.ask("cmd=finalize\n", "finalize_ack").map(drop)
    }
}
