// Package render renders templates with HashiCorp's consul-template as a
// library, in a process of its own that can only compute: it opens no file,
// makes no connection, starts no program, and has little memory and time. It is
// told everything that a template may see, answers with the text, and names what
// else the template wants to know. The agent gets that, and asks again.
package render

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"berth"
	"berth/internal/agent/isolate"
)

// Word leads to Main.
const Word = "@render"

// The kinds of values that a template can want.
const (
	Var       = "variable"        // the items of a variable; it must exist
	VarExists = "variable exists" // whether there is a variable
	VarList   = "variables"       // the variables below a prefix
	Service   = "service"         // the instances of a service
	Services  = "services"        // all services of the namespace
	File      = "file"            // the content of a file below the task's directory
	Other     = "not supported"   // of another system
)

// Need is a value that a template wants.
type Need struct {
	Key       string // names it in Request.Values
	Kind      string
	Name      string // path, prefix, name of the service or of the file
	Namespace string `json:",omitempty"`
	Region    string `json:",omitempty"`
	Tag       string `json:",omitempty"` // of a service
	Choose    string `json:",omitempty"` // of a service: "2~key"
}

// String returns what people are told that a task waits for.
func (n Need) String() string {
	if n.Kind == Services {
		return "services"
	}
	return n.Kind + " " + n.Name
}

// Value is what there is for a need.
type Value struct {
	Kind      string
	Missing   bool            `json:",omitempty"` // there is none
	Variable  *VariableValue  `json:",omitempty"`
	Variables []VariableValue `json:",omitempty"`
	Instances []InstanceValue `json:",omitempty"`
	Services  []ServiceValue  `json:",omitempty"`
	Text      string          `json:",omitempty"`
}

// VariableValue is a variable, in a list without its items.
type VariableValue struct {
	Namespace, Path          string
	CreateIndex, ModifyIndex uint64
	CreateTime, ModifyTime   int64
	Items                    map[string]string `json:",omitempty"`
}

// InstanceValue is an instance of a service.
type InstanceValue struct {
	ID, Name, Node, Address string
	Port                    int
	Datacenter              string
	Tags                    []string
	JobID, AllocID          string
}

// ServiceValue is a service in a list.
type ServiceValue struct {
	Name string
	Tags []string
}

// Template is a text to render.
type Template struct {
	Text        string
	Left, Right string // delimiters
	Strict      bool   // a key that is missing is an error
}

// Request is all that a rendering may see.
type Request struct {
	Templates []Template
	Namespace string
	Env       []string         // for the function env
	Values    map[string]Value // by Need.Key
	Deny      []string         // functions beside those that are never allowed
}

// Result is what became of a template.
type Result struct {
	Output []byte `json:",omitempty"`
	Err    string `json:",omitempty"`
	Used   []Need `json:",omitempty"`
	// Missing are values that are not there: the output is not to be used.
	Missing []Need `json:",omitempty"`
}

// Limits of the process.
const (
	memory    = 512 << 20
	cpu       = 5 // s
	wallclock = time.Minute
	// MaxOutput is the largest text that a template may become.
	MaxOutput = 16 << 20
	// MaxText is the largest template.
	MaxText = 1 << 20
)

// Run renders templates. A template that cannot be rendered is a Result with an
// Err; the error is of kind Invalid if the process was ended because it used too
// much, and Unavailable if it was killed for another reason.
func Run(ctx context.Context, command []string, r *Request) ([]Result, error) {
	for i, t := range r.Templates {
		if len(t.Text) > MaxText {
			return nil, berth.Errorf(berth.Invalid, "template %d: has %d bytes, at most %d are allowed", i+1, len(t.Text), MaxText)
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, wallclock, errTooLong)
	defer cancel()
	out := bounded{most: len(r.Templates)*MaxOutput*3/2 + 1<<20}
	h := isolate.Helper{Command: command, Word: Word, Dir: "/", Input: r, Output: &out, Box: isolate.Box{Memory: memory, CPU: cpu, FileSize: 1}, Env: []string{"GOMAXPROCS=2", "GOMEMLIMIT=400MiB"}}
	err := h.Run(ctx)
	var ended *isolate.HelperError
	switch {
	case errors.Is(context.Cause(ctx), errTooLong), errors.As(err, &ended):
		if ended != nil && ended.Lost() && ctx.Err() == nil {
			return nil, berth.Errorf(berth.Unavailable, "template: %w", err)
		}
		if err == nil || ctx.Err() != nil {
			err = errTooLong
		}
		return nil, berth.Errorf(berth.Invalid, "template: cannot be rendered: %w", err)
	case err != nil:
		return nil, err
	case out.full:
		return nil, berth.Errorf(berth.TooLarge, "template: the output has more than %d bytes", MaxOutput)
	}
	var results []Result
	if err := json.Unmarshal(out.text.Bytes(), &results); err != nil || len(results) != len(r.Templates) {
		return nil, fmt.Errorf("template: the answer of the renderer cannot be read: %w", err)
	}
	return results, nil
}

var errTooLong = fmt.Errorf("it took longer than %v", wallclock)

// bounded keeps what is written to it, up to most bytes. Its buffer is not
// embedded: the buffer's ReadFrom would know no bound.
type bounded struct {
	text bytes.Buffer
	most int
	full bool
}

// Write never fails: a helper that says too much ends by itself.
func (b *bounded) Write(p []byte) (int, error) {
	if b.text.Len()+len(p) > b.most {
		b.full = true
		return len(p), nil
	}
	return b.text.Write(p)
}
