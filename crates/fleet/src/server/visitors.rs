//! Who has not shown a certificate: few from one address, so that nobody keeps the others out.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// So many from one address.
const MOST: usize = 16;

#[derive(Debug, Clone, Default)]
pub(crate) struct Visitors {
    here: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// One of them, until dropped.
#[derive(Debug)]
pub(crate) struct Visitor {
    address: IpAddr,
    all: Visitors,
}

// === impl Visitors ===

impl Visitors {
    pub(crate) fn enter(&self, address: IpAddr) -> Option<Visitor> {
        let mut here = self.lock();
        let count = here.entry(address).or_default();
        if *count == MOST {
            return None;
        }
        *count += 1;
        Some(Visitor { address, all: self.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.here.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        let mut here = self.all.lock();
        if let Some(count) = here.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                here.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_does_not_fill_the_house() {
        let visitors = Visitors::default();
        let address = |n: u8| IpAddr::from([192, 0, 2, n]);
        let some: Vec<_> = (0..MOST).map(|_| visitors.enter(address(1)).unwrap()).collect();
        assert!(visitors.enter(address(1)).is_none());
        assert!(visitors.enter(address(2)).is_some());
        drop(some);
        assert!(visitors.enter(address(1)).is_some());
        assert!(visitors.lock().is_empty());
    }
}
