//! Many messages, each done or refused by itself, with a barrier behind them.

use super::burst::{Burst, Encode, PutError};
use super::error::BatchError;
use super::handle::Session;

impl Session {
    /// Sends messages and waits until the switch has done or refused each of them. They are not
    /// atomic: what is not refused is done.
    pub async fn batch<M: Encode>(
        &self,
        messages: impl IntoIterator<Item = M>,
    ) -> Result<(), BatchError> {
        let mut burst = Burst::new(self.clone());
        let mut unsent = None;
        for message in messages {
            match burst.put(|xid, w| message.encode_message(xid, w)).await {
                Ok(()) => {}
                Err(PutError::Encode(source)) => {
                    unsent = Some((burst.len(), source));
                    break;
                }
                Err(PutError::Session(error)) => return Err(BatchError::Unknown(error)),
            }
        }
        burst.flush().await.map_err(BatchError::Unknown)?;
        // Errors come before the barrier's answer, on the same connection (6.2).
        self.barrier().await.map_err(BatchError::Unknown)?;
        let refused = burst.collector().take();
        match unsent {
            Some((index, source)) => Err(BatchError::Encode { index, source, refused }),
            None if refused.is_empty() => Ok(()),
            None => Err(BatchError::Refused(refused)),
        }
    }
}
