//! The tables of the checker: sites, races, and the names of places and of memory.

use farside_fabric::SegmentId;

use crate::access::{Access, Site};
use crate::layout::{
    BLIND_NUMBERS, BLINDS, NAME_NUMBERS, NAMES, PLACE_NUMBERS, PLACES, RACES, SITES, count,
};
use crate::state::{Pair, Span, State, mix};

impl State<'_> {
    pub(crate) fn intern(&mut self, site: Site) -> Option<usize> {
        let packed = site.pack();
        let hash = mix(u64::from(packed[0]) << 32 ^ u64::from(packed[1]) ^ mix(packed[2].into()));
        for step in 0..64 {
            let number = (hash as usize + step) % SITES;
            let at = self.layout.site(number);
            if self.numbers[at + 3] == 0 {
                self.numbers[at..at + 3].copy_from_slice(&packed);
                self.numbers[at + 3] = 1;
                return Some(number);
            }
            if self.numbers[at..at + 3] == packed {
                return Some(number);
            }
        }
        None
    }

    pub(crate) fn site(&self, number: usize) -> Site {
        let at = self.layout.site(number);
        Site::unpack([self.numbers[at], self.numbers[at + 1], self.numbers[at + 2]])
    }

    /// Notes a race; returns 1 if it is the first between the two places.
    pub(crate) fn race(&mut self, pair: &Pair, access: &Access, span: Span) -> u32 {
        let races = self.numbers[count::RACES] as usize;
        let key = |site: Site| (site.place, site.operation);
        let (a, b) = (key(pair.first), key(pair.second));
        for race in 0..races {
            let at = self.layout.race(race);
            let known = |at: usize| {
                key(Site::unpack([self.numbers[at], self.numbers[at + 1], self.numbers[at + 2]]))
            };
            let (c, d) = (known(at), known(at + 3));
            if (a, b) == (c, d) || (a, b) == (d, c) {
                self.numbers[at + 11] = self.numbers[at + 11].saturating_add(1);
                return 0;
            }
        }
        if races == RACES {
            return 0;
        }
        let at = self.layout.race(races);
        self.numbers[at..at + 3].copy_from_slice(&pair.first.pack());
        self.numbers[at + 3..at + 6].copy_from_slice(&pair.second.pack());
        self.numbers[at + 6] = access.segment.0 as u32;
        self.numbers[at + 7] = (access.segment.0 >> 32) as u32;
        self.numbers[at + 8] = span.offset as u32;
        self.numbers[at + 9] = (span.offset >> 32) as u32;
        self.numbers[at + 10] = access.owner as u32 | span.mask << 16 | (pair.missing as u32) << 24;
        self.numbers[at + 11] = 1;
        self.numbers[count::RACES] += 1;
        1
    }

    pub(crate) fn read_race(&self, race: usize) -> ([Site; 2], [u32; 6]) {
        let at = self.layout.race(race);
        let site = |at: usize| {
            Site::unpack([self.numbers[at], self.numbers[at + 1], self.numbers[at + 2]])
        };
        let mut rest = [0; 6];
        rest.copy_from_slice(&self.numbers[at + 6..at + 12]);
        ([site(at), site(at + 3)], rest)
    }

    pub(crate) fn name_place(&mut self, name: &str) -> u32 {
        let places = self.numbers[count::PLACES] as usize;
        for place in 0..places {
            if self.read_text(self.layout.place(place), PLACE_NUMBERS) == name {
                return place as u32;
            }
        }
        if places == PLACES {
            return PLACES as u32;
        }
        self.write_text(self.layout.place(places), PLACE_NUMBERS, name);
        self.numbers[count::PLACES] += 1;
        places as u32
    }

    pub(crate) fn place_name(&self, place: u32) -> String {
        if place >= self.numbers[count::PLACES] {
            return "an unknown place".into();
        }
        self.read_text(self.layout.place(place as usize), PLACE_NUMBERS)
    }

    pub(crate) fn name_segment(&mut self, segment: SegmentId, element: u32, name: Option<&str>) {
        let id = [segment.0 as u32, (segment.0 >> 32) as u32];
        let names = self.numbers[count::NAMES] as usize;
        let known = (0..names).find(|&at| {
            let at = self.layout.name(at);
            self.numbers[at..at + 2] == id
        });
        let entry = known.unwrap_or(names);
        if entry == NAMES {
            return;
        }
        let at = self.layout.name(entry);
        if known.is_none() {
            self.numbers[at..at + 2].copy_from_slice(&id);
            self.numbers[count::NAMES] += 1;
        }
        if element != 0 {
            self.numbers[at + 2] = element;
        }
        if let Some(name) = name {
            self.write_text(at + 3, NAME_NUMBERS - 3, name);
        }
    }

    /// Returns the name of a segment, if it has one, and the length of its elements.
    pub(crate) fn segment_name(&self, segment: [u32; 2]) -> (Option<String>, u32) {
        let names = self.numbers[count::NAMES] as usize;
        for entry in 0..names {
            let at = self.layout.name(entry);
            if self.numbers[at..at + 2] == segment {
                let name = self.read_text(at + 3, NAME_NUMBERS - 3);
                return ((!name.is_empty()).then_some(name), self.numbers[at + 2].max(1));
            }
        }
        (None, 1)
    }

    /// Notes a blind spot, once for each place.
    pub(crate) fn blind(&mut self, what: u32, place: u32) {
        let blinds = self.numbers[count::BLINDS] as usize;
        let entry = [what, place];
        let known = (0..blinds).any(|blind| {
            let at = self.layout.blind(blind);
            self.numbers[at..at + BLIND_NUMBERS] == entry
        });
        if !known && blinds < BLINDS {
            let at = self.layout.blind(blinds);
            self.numbers[at..at + BLIND_NUMBERS].copy_from_slice(&entry);
            self.numbers[count::BLINDS] += 1;
        }
    }

    fn read_text(&self, at: usize, numbers: usize) -> String {
        let bytes: Vec<u8> = self.numbers[at + 1..at + numbers]
            .iter()
            .flat_map(|number| number.to_ne_bytes())
            .take(self.numbers[at] as usize)
            .collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn write_text(&mut self, at: usize, numbers: usize, text: &str) {
        let room = (numbers - 1) * 4;
        // Of a long path the end tells more.
        let bytes = text.as_bytes();
        let bytes = &bytes[bytes.len().saturating_sub(room)..];
        self.numbers[at] = bytes.len() as u32;
        for (step, four) in bytes.chunks(4).enumerate() {
            let mut number = [0; 4];
            number[..four.len()].copy_from_slice(four);
            self.numbers[at + 1 + step] = u32::from_ne_bytes(number);
        }
    }
}
