//go:build !amd64 && !arm64

package isolate

// auditArch is 0 where the filter was not made for the architecture.
const auditArch = 0

// archCalls are none.
var archCalls []uint32
