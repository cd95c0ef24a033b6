//! Requests and replies on their way.

use super::Micros;
use super::SECOND;
use super::What;
use super::World;
use onecron::clock::Boot;
use onecron::engine::Event;
use onecron::engine::RequestId;
use onecron::engine::StoreFailure;
use onecron::job::*;
use std::sync::Arc;

const REQUEST_TIMEOUT: Micros = SECOND;

/// A request on its way.
#[derive(Debug)]
pub struct Sent {
    replica: usize,
    incarnation: u32,
    request: RequestId,
    steps: Arc<Vec<Step>>,
    /// What the store was when the request was sent: one that has restarted since does not get it.
    server: String,
}

/// What is asked beside steps.
#[derive(Debug, Clone)]
pub enum Meeting {
    Meet { mine: Box<Presence>, gone: Vec<Presence> },
    Survey,
}

fn failure(detail: &str) -> StoreFailure {
    StoreFailure { kind: "maybe_applied", detail: detail.into() }
}

impl World {
    /// Whether a replica that is up has the job in its table.
    pub fn lists(&self, job: &JobName) -> bool {
        let tables = self.replicas.iter().filter(|replica| replica.engine.is_some()).map(|replica| replica.version);
        tables.map(|version| &self.versions[version]).any(|table| table.jobs.iter().any(|spec| spec.name == *job))
    }

    /// A replica that has drained writes what it was.
    pub(super) fn say_farewell(&mut self, replica: usize) {
        let (now, at) = (self.clocks(replica), self.store_time());
        let farewell = self.replicas[replica].engine.as_ref().map(|engine| engine.farewell(now));
        self.records.meet(farewell.as_ref(), &[], at);
    }

    /// When a request is at the store, if it gets there, and when its reply is back, if that does.
    fn travel(&mut self, replica: usize) -> (Option<Micros>, Option<Micros>) {
        let random = &mut self.random;
        let mut there = self.now + random.between(200, 3_000);
        let mut back = there + random.between(200, 3_000);
        if self.now < self.outage_until || self.now < self.replicas[replica].cut_until {
            // Of what was sent while the way is cut, some arrives all the same, and its reply does not.
            let arrives = self.faults.network && self.now >= self.outage_until && random.chance(100);
            return (arrives.then_some(there), None);
        }
        if self.now >= self.trouble_until {
            return (Some(there), Some(back));
        }
        let late = random.next();
        if late % 1000 < 30 {
            there += random.between(0, 9_000_000);
        }
        if late / 1000 % 1000 < 30 {
            back += random.between(0, 3_000_000);
        }
        back = back.max(there + 200);
        let (lost, reply_lost) = (late / 1_000_000 % 1000 < 25, late / 1_000_000_000 % 1000 < 25);
        let reply = (!lost && !reply_lost && back < self.now + REQUEST_TIMEOUT).then_some(back);
        ((!lost).then_some(there), reply)
    }

    pub(super) fn send(&mut self, replica: usize, request: RequestId, steps: Arc<Vec<Step>>) {
        let incarnation = self.replicas[replica].incarnation;
        let (there, reply) = self.travel(replica);
        if let Some(there) = there {
            let server = self.records.identity.server.clone();
            let sent = Box::new(Sent { replica, incarnation, request, steps: Arc::clone(&steps), server });
            self.put(there, What::Arrive { sent, reply });
        }
        if reply.is_none() {
            self.meet("lost reply");
            let result = self.imagined(&steps).ok_or_else(|| failure("no answer"));
            self.put(self.now + REQUEST_TIMEOUT, What::Reply { replica, incarnation, request, result });
        }
    }

    pub(super) fn arrive(&mut self, sent: Sent, reply: Option<Micros>) {
        let Sent { replica, incarnation, request, steps, server } = sent;
        if server != self.records.identity.server {
            let result = Err(failure("the connection was cut"));
            return self.put(self.now, What::Reply { replica, incarnation, request, result });
        }
        let now = self.store_time();
        let answers: Vec<Answer> = steps.iter().map(|step| self.apply(step, now)).collect();
        if let Some(at) = reply {
            self.put(at, What::Reply { replica, incarnation, request, result: Ok(answers) });
        }
    }

    pub(super) fn send_meeting(&mut self, replica: usize, meeting: Meeting) {
        let (incarnation, sent) = (self.replicas[replica].incarnation, self.clocks(replica).boot);
        let (there, reply) = self.travel(replica);
        if reply.is_none() {
            let event = match meeting {
                Meeting::Meet { .. } => Event::Met { sent, result: Err(failure("no answer")) },
                Meeting::Survey => Event::Surveyed { result: Err(failure("no answer")) },
            };
            self.put(self.now + REQUEST_TIMEOUT, What::Tell { replica, incarnation, event });
        }
        if let Some(there) = there {
            self.put(there, What::ArriveMeeting { replica, incarnation, sent, meeting, reply });
        }
    }

    pub(super) fn arrive_meeting(
        &mut self,
        (replica, incarnation): (usize, u32),
        sent: Boot,
        meeting: Meeting,
        reply: Option<Micros>,
    ) {
        let event = match meeting {
            Meeting::Meet { mine, gone } => {
                let result = Ok(self.records.meet(Some(&mine), &gone, self.store_time()));
                Event::Met { sent, result }
            }
            Meeting::Survey => {
                let jobs = self.records.jobs().map(|(name, record)| (name.clone(), record.clone()));
                Event::Surveyed { result: Ok(jobs.collect()) }
            }
        };
        if let Some(at) = reply {
            self.put(at, What::Tell { replica, incarnation, event });
        }
    }
}
