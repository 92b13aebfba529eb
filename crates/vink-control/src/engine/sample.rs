//! Samples of sockets, to a client.

use std::sync::Arc;

use vink_api::SampleQuery;
use vink_protocol::{Action, ProbeRequest};

use super::lab::Lab;
use super::spawn::pipe;
use super::terminal::Pipe;
use crate::http_error::HttpError;

impl Lab {
    /// Gives samples to a client; they end when it does not read any more.
    pub(crate) async fn samples_to_client(
        self: &Arc<Lab>,
        query: SampleQuery,
    ) -> Result<Pipe, HttpError> {
        let worker = self.worker_for_machine(&query.machine)?;
        let (ours, theirs) = pipe().map_err(|error| HttpError::host("pipe", error))?;
        let ours = Pipe::new(ours).map_err(|error| HttpError::host("pipe", error))?;
        let points = query.points.split(',').map(str::to_owned);
        let probe = Action::Probe(ProbeRequest {
            points: points.collect(),
            bytes: query.bytes,
            only: query.offset.zip(query.number),
        });
        self.have(worker, probe, vec![theirs]).await?;
        Ok(ours)
    }
}
