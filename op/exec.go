package op

import (
	"encoding/json"

	"berth"
	"berth/internal/acl"
)

// ExecTask asks for a command to be run beside a running task. Over HTTP it is a
// websocket. The caller sends ExecInput, and gets ExecOutput until the command
// has ended.
type ExecTask struct {
	AllocID   string
	Task      string `query:"task"`         // "" if the allocation has only one
	Command   string `query:"command"`      // a JSON list: the program and its arguments
	TTY       bool   `query:"tty"`          // give it a terminal
	Handshake bool   `query:"ws_handshake"` // the first message is a handshake of a browser, and no input
	Query
}

// Words returns the command: the program and its arguments.
func (e *ExecTask) Words() (words []string, err error) {
	if err := json.Unmarshal([]byte(e.Command), &words); err != nil || len(words) == 0 || words[0] == "" {
		return nil, berth.Errorf(berth.Invalid, "command: must be a JSON list of the program and its arguments, such as [\"/bin/sh\"], got %q", berth.Clip(e.Command, 100))
	}
	return words, nil
}

// ExecInput is a message to a command: input, or the size of the terminal. An
// empty one says only that the caller is there.
type ExecInput struct {
	Stdin   *ExecData     `json:"stdin,omitempty"`
	TTYSize *TerminalSize `json:"tty_size,omitempty"`
}

// ExecData is a piece of input or output, or its end.
type ExecData struct {
	Data  []byte `json:"data,omitempty"`
	Close bool   `json:"close,omitempty"`
}

// TerminalSize is the size of a terminal in characters.
type TerminalSize struct {
	Height int `json:"height,omitempty"`
	Width  int `json:"width,omitempty"`
}

// ExecOutput is a message of a command: output, or, last, its exit code. An empty
// one says only that the command runs.
type ExecOutput struct {
	Stdout *ExecData   `json:"stdout,omitempty"`
	Stderr *ExecData   `json:"stderr,omitempty"`
	Exited bool        `json:"exited,omitempty"`
	Result *ExecResult `json:"result,omitempty"`
}

// ExecResult is how a command ended.
type ExecResult struct {
	ExitCode int `json:"exit_code"`
}

// ForwardPort asks for a connection to a port of an allocation. Over HTTP it is a
// websocket. Messages both ways are bytes; the first byte of each is PortData,
// with bytes of the connection behind it, or PortEnd: no more will come.
type ForwardPort struct {
	AllocID string
	Port    string `query:"port"` // label or number
	Query
}

// The first bytes of messages of a forwarded port.
const (
	PortData = 'd'
	PortEnd  = 'e'
)

// The operations that run something beside tasks, or reach their ports.
var (
	Exec        = define[ExecTask, Nothing]("alloc.exec", "GET /v1/client/allocation/{AllocID}/exec", "", acl.AllocExec, acl.AllocSpace, local)
	PortForward = define[ForwardPort, Nothing]("alloc.port_forward", "GET /v1/client/allocation/{AllocID}/port-forward", "", acl.AllocExec, acl.AllocSpace, local, bytes)

	AgentExec        = define[ExecTask, Nothing]("agent.exec", "", "Allocations.Exec", acl.Server, acl.NoSpace, agents)
	AgentPortForward = define[ForwardPort, Nothing]("agent.port_forward", "", "Allocations.PortForward", acl.Server, acl.NoSpace, agents)
)
