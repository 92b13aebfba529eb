//! Samples of sockets, to a client.

use std::sync::Arc;

use vink_api::SampleQuery;
use vink_lab::worker::protocol::{Action, Recording};

use super::lab::Lab;
use super::spawn::pipe;
use super::terminal::Pipe;
use crate::fault::Fault;

impl Lab {
    /// Gives samples to a client; they end when it does not read any more.
    pub(crate) async fn samples_to_client(
        self: &Arc<Lab>,
        query: SampleQuery,
    ) -> Result<Pipe, Fault> {
        let worker = self.place(&query.machine)?;
        let (ours, theirs) = pipe().map_err(|error| Fault::host("pipe", error))?;
        let ours = Pipe::new(ours).map_err(|error| Fault::host("pipe", error))?;
        let points = query.points.split(',').map(str::to_owned);
        let record = Action::Record(Recording {
            points: points.collect(),
            bytes: query.bytes,
            only: query.offset.zip(query.number),
        });
        self.have(worker, record, vec![theirs]).await?;
        Ok(ours)
    }
}
