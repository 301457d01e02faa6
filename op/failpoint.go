package op

import (
	"berth/acl"
	"berth/internal/failpoint"
)

// ArmFailpoint has the server that leads fail at a point, or takes that back:
// servers whose configuration does not enable it refuse.
type ArmFailpoint struct {
	failpoint.Point
	Write
}

// ArmedFailpoints answers ArmFailpoint: all that is armed now.
type ArmedFailpoints struct {
	Failpoints []failpoint.Point
	Meta
}

// WriteFailpoint is how tests have servers fail on purpose.
var WriteFailpoint = define[ArmFailpoint, ArmedFailpoints]("failpoint.write", "PUT /v1/operator/failpoint", "", acl.OperatorWrite, acl.NoSpace)
