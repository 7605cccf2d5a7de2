//! The settings of a layer, and the decisions by them.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use http::{Response, request::Parts, response};
use http_body_util::Full;
use topup_wire::limit::OnOutage;

use super::{Headers, Outcome, Rejection, Rule, rule::CostOfResponse};
use crate::{admission::Admission, bucket::Here, client::Client, denied::Denied, hold::Hold, take::Take};

type Respond = dyn Fn(&Parts, &Rejection) -> Response<Full<Bytes>> + Send + Sync;

/// The settings of a layer.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) client: Client,
    pub(super) rules: Vec<Rule>,
    pub(super) on_outage: Option<OnOutage>,
    pub(super) headers: Headers,
    pub(super) respond: Arc<Respond>,
}

/// The takes of a request.
#[derive(Default)]
pub(super) struct Asked {
    pub(super) takes: Vec<Take>,
    /// The takes that the response settles: the index of each in `takes`, and the cost by the response.
    settled: Vec<(usize, Arc<CostOfResponse>)>,
}

/// A hold that the response settles.
pub(super) struct Settling {
    hold: Hold,
    cost: Arc<CostOfResponse>,
}

// === impl Settling ===

impl Settling {
    /// Settles the hold by the head of a response, in a task of its own.
    pub(super) fn settle(self, response: &response::Parts) {
        let Self { mut hold, cost } = self;
        let used = cost(response).unwrap_or(hold.estimate());
        let runtime = hold.runtime();
        // Without Redis, the hold is abandoned.
        runtime.spawn(async move { hold.settle(used).await });
    }
}

// === impl Settings ===

impl Settings {
    pub(super) fn takes(&self, request: &Parts) -> Result<Asked, Rejection> {
        let mut asked = Asked::default();
        for rule in &self.rules {
            let Some(take) = rule.take(request)? else { continue };
            if let Some(cost) = rule.settles() {
                asked.settled.push((asked.takes.len(), cost.clone()));
            }
            asked.takes.push(take);
        }
        Ok(asked)
    }

    /// Asks the limits. Returns the outcome, the rejection if there is one, and the holds that the response settles.
    pub(super) async fn decide(&self, asked: Asked) -> (Outcome, Option<Rejection>, Vec<Settling>) {
        let Asked { takes, settled } = asked;
        let (outcome, rejection) = self.ask(&takes).await;
        let mut settling = Vec::new();
        if let (Outcome::Decided(decided) | Outcome::Degraded(decided), None) = (&outcome, &rejection) {
            for (at, cost) in settled {
                let (bucket, estimate) = (takes[at].bucket(&self.client), takes[at].tokens());
                let (bucket, is_without) = match bucket.here().await {
                    Ok(Here::Bucket(bucket)) => (bucket, false),
                    Ok(Here::Decided(_)) => (bucket, true),
                    Err(_) => (bucket, false),
                };
                if let Some(hold) = Hold::of(decided, &bucket, estimate, is_without) {
                    hold.remember().await;
                    settling.push(Settling { hold, cost });
                }
            }
        }
        (outcome, rejection, settling)
    }

    async fn ask(&self, takes: &[Take]) -> (Outcome, Option<Rejection>) {
        let admission = Admission::of(&self.client).or_else(OnOutage::Allow);
        let admission = self.on_outage.into_iter().fold(admission, Admission::on_outage);
        let admission = takes.iter().cloned().fold(admission, Admission::take);
        match admission.multi_decision().await {
            Ok(decided) => {
                let rejection = Denied::by(&decided, takes).map(|denied| Rejection::denied(&denied));
                let outcome = if decided.is_degraded() {
                    Outcome::Degraded(decided)
                } else {
                    Outcome::Decided(decided)
                };
                (outcome, rejection)
            }
            Err(error) => {
                let rejection = admission.denies_on(&error).then(|| Rejection::because(&error));
                (Outcome::Undecided(error), rejection)
            }
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("rules", &self.rules)
            .field("on_outage", &self.on_outage)
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}
