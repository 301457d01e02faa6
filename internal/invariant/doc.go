// Package invariant checks what must hold of every state, whatever happened to
// it. It reads one snapshot and recounts from the rows what the state keeps
// incrementally, or compares two snapshots of one history, or follows the
// changes between them. Tests, simulated histories, the fault runner and the
// offline check of a saved snapshot all use this one list.
//
// [Check] holds for every snapshot, [Changed] for the changes of every commit,
// [Between] for any two states of one history, [Step] for what one command did,
// and [Scheduled] for every snapshot whose plans all came from schedulers. What
// none of them can see is covered by the test that the table names.
//
//	I-01  statuses of evaluations          Check, Changed, Between
//	I-02  a change has its evaluation      Changed
//	I-03  none is forgotten                Check (lists); broker: test/histories TestHistories
//	I-04  one blocked, for a reason        Check
//	I-05  nothing is placed twice          Check, Changed
//	I-06  chains of evaluations            Check
//	I-07  one follow-up                    Check, Changed
//	I-08  no node over capacity            Check
//	I-09  no port, core, device twice      Check
//	I-10  where allocations are put        Changed; constraints: test/histories TestHistories
//	I-11  a plan is one entry              Check, Changed
//	I-12  no reference to nothing          Check
//	I-13  who preempts whom                Check, Changed
//	I-14  plan attempts                    counted by workers: worker TestAttemptsRunOut
//	I-15  names                            Check, Changed, Between
//	I-16  no more than the count           Check (I-15), Scheduled; no fewer: test/histories TestHistories
//	I-17  chains of allocations            Check, Between; policies: Scheduled
//	I-18  what ended stays so              Check, Changed, Between
//	I-19  one per node; done is done       Check; Scheduled; each node has one: test/histories TestHistories
//	I-20  versions grow by one             Check, Changed, Between; compare-and-set: server TestRefusals
//	I-21  which versions are kept, stable  Check, Changed, Step
//	I-22  nothing outlives its job         Check (orphans, lists)
//	I-23  one child per launch, token      Check, Changed, Between; none is missed: leader/periodic TestAfterAnOutage
//	I-24  counts are a recount             Check
//	I-25  one deployment, forward only     Check, Changed, Between, Scheduled
//	I-26  its counts; it ends              Check; leader/deploy TestDeploymentsEnd
//	I-27  max_parallel is kept             Scheduled; what still serves: schedule/reconcile TestUpdatesArrive
//	I-28  nodes; drained is ineligible     Check, Between; terms: consensus TestRefusals
//	I-29  drained is empty                 Check, Changed; deadlines: leader/drain TestStories
//	I-30  contacted is up, silent down     by time: leader/heartbeat TestHeartbeatsKeepANodeUp, leader/heartbeat TestSilentNodeIsDownOnce
//	I-31  nothing needed is deleted        Changed, Step; how much: schedule TestCollectionsAreBounded
//	I-32  old rows are deleted             by time: leader/collector TestByTime
//	I-37  the index never falls            Between
//	I-41  what is deleted only ends        Check, Between
//	I-42  owners go last                   Changed
//	I-43  orphans have no job              Check, Between
//	I-44  owners and rows exist            Check, Between
//	I-45  nothing for what is deleted      Check, Changed
//	I-46  dependents go first              Changed
//	I-47  nothing older than its owner     Check
//	I-48  one allocation of a PE           Check
//	I-49  launches only count up           Check, Changed, Between
//	I-60  usage of quotas equals a recount Check
//	I-61  CSI volumes are kept apart       Check; state TestTheCommitKeepsCSIVolumesApart
//	I-50  Submitted is complete            Check, Changed, Step
//	I-51  what a user deleted stays away   Changed; state TestStreamsAgainstAModel
//	I-52  an accepted job never vanishes   Changed; state TestStreamsAgainstAModel
//	I-53  one exclusive pool per node      Check
//	I-54  one log, one state               state TestStreamsAgainstAModel
package invariant
