//! Random choices that can be made again.

use std::time::Duration;

pub(crate) struct Chance(u64);

impl Chance {
    /// The seed of the environment, or another one each time.
    pub(crate) fn from_environment() -> Self {
        let seed = std::env::var("OSIER_FAULTS_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(|| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.unwrap().subsec_nanos().into()
        });
        eprintln!("OSIER_FAULTS_SEED={seed}");
        Self(seed)
    }

    pub(crate) fn fork(&mut self) -> Self {
        Self(self.next())
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap() % end
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }

    /// Lets time pass in which anything may happen: at most so much.
    pub(crate) async fn pause(&mut self, most: Duration) {
        let part = u32::try_from(self.below(100)).unwrap();
        tokio::time::sleep(most * part / 100).await;
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
