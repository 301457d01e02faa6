package op

import (
	"time"

	"berth"
	"berth/internal/acl"
)

// How an allocation stands whose templates restart it in turn, as its agent tells
// it.
const (
	TurnWanted = "wanted" // a template changed: it wants to restart
	TurnTaken  = "taken"  // it has its turn, and is not known to be healthy yet
	TurnFailed = "failed" // it had its turn, and did not become healthy
	TurnOver   = "over"   // it had its turn and is healthy, or wants none any more
)

// TellTurn tells the leader how an allocation stands. Agents repeat it every
// [TurnRenewal] for as long as the turn is taken or failed.
type TellTurn struct {
	NodeID  berth.NodeID
	AllocID berth.AllocID
	State   string // one of the Turn constants
	Query
}

// TurnRenewal is how often an agent tells of a turn.
const TurnRenewal = 15 * time.Second

// TurnAnswer answers TellTurn.
type TurnAnswer struct {
	Given bool          // the allocation has its turn, and may restart
	Again time.Duration // when to ask again, if it has not
	Waits string        // what it waits for then, as people read it
	Meta
}

// Turn is called by agents before and after templates restart an allocation.
var Turn = define[TellTurn, TurnAnswer]("template.turn", "", "Template.Turn", acl.Node, acl.NoSpace)
