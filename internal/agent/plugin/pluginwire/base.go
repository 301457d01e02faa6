package pluginwire

import "time"

// Cookie is what a plugin looks for in its environment, so that nobody starts it
// by hand, and CookieValue is what it finds there. ProtocolVersion is that of the
// handshake.
const (
	Cookie          = "NOMAD_PLUGIN_MAGIC_COOKIE"
	CookieValue     = "e4327c2e01eabfd75a8a67adb114fb34a757d57eee7728d857a8cec6e91a7255"
	ProtocolVersion = 2
	APIVersion      = "v0.1.0" // of the messages, for drivers and devices alike
)

// The services of gRPC.
const (
	BaseService   = "hashicorp.nomad.plugins.base.proto.BasePlugin"
	DriverService = "hashicorp.nomad.plugins.drivers.proto.Driver"
	DeviceService = "hashicorp.nomad.plugins.device.DevicePlugin"
)

// Empty is a message without fields.
type Empty struct{}

// PluginType says what a plugin is.
type PluginType int32

// The types of plugins.
const (
	TypeDriver PluginType = 2
	TypeDevice PluginType = 3
)

// PluginInfo describes a plugin.
type PluginInfo struct {
	Type        PluginType `pb:"1"`
	APIVersions []string   `pb:"2"`
	Version     string     `pb:"3"`
	Name        string     `pb:"4"`
}

// Schema answers ConfigSchema and TaskConfigSchema.
type Schema struct {
	Spec *Spec `pb:"1"`
}

// SetConfig gives a plugin the config of its plugin block.
type SetConfig struct {
	Config     []byte       `pb:"1"` // msgpack
	Agent      *AgentConfig `pb:"2"`
	APIVersion string       `pb:"3"`
}

// AgentConfig is what every plugin is told of the agent.
type AgentConfig struct {
	Driver *AgentDriverConfig `pb:"1"`
}

// AgentDriverConfig has the ports that plugins may use on loopback.
type AgentDriverConfig struct {
	MaxPort uint32 `pb:"1"`
	MinPort uint32 `pb:"2"`
}

// Spec says what a block of configuration may hold. One field is set.
type Spec struct {
	Object     *Object     `pb:"1"`
	Array      *Array      `pb:"2"`
	Attr       *Attr       `pb:"3"`
	Block      *Block      `pb:"4"`
	BlockAttrs *BlockAttrs `pb:"5"`
	BlockList  *BlockList  `pb:"6"`
	BlockSet   *BlockList  `pb:"7"`
	BlockMap   *BlockMap   `pb:"8"`
	Default    *Default    `pb:"9"`
	Literal    *Literal    `pb:"10"`
}

// Attr is an attribute of a type, such as list(string).
type Attr struct {
	Name     string `pb:"1"`
	Type     string `pb:"2"`
	Required bool   `pb:"3"`
}

// Block is one nested block.
type Block struct {
	Name     string `pb:"1"`
	Required bool   `pb:"2"`
	Nested   *Spec  `pb:"3"`
}

// BlockAttrs is a block whose keys the job chooses.
type BlockAttrs struct {
	Name     string `pb:"1"`
	Type     string `pb:"2"`
	Required bool   `pb:"3"`
}

// BlockList is a block that may be repeated.
type BlockList struct {
	Name   string `pb:"1"`
	Min    uint64 `pb:"2"`
	Max    uint64 `pb:"3"`
	Nested *Spec  `pb:"4"`
}

// BlockMap is a block that may be repeated with other labels.
type BlockMap struct {
	Name   string   `pb:"1"`
	Labels []string `pb:"2"`
	Nested *Spec    `pb:"3"`
}

// Literal is an expression.
type Literal struct {
	Value string `pb:"1"`
}

// Default is the first of two that has a value.
type Default struct {
	Primary *Spec `pb:"1"`
	Default *Spec `pb:"2"`
}

// Object has attributes by name.
type Object struct {
	Attributes map[string]*Spec `pb:"1"`
}

// Array has values by place.
type Array struct {
	Values []*Spec `pb:"1"`
}

// Attribute is the value of an attribute of a node or a device. One of the first
// four is set.
type Attribute struct {
	Float  *float64 `pb:"1"`
	Int    *int64   `pb:"2"`
	String *string  `pb:"3"`
	Bool   *bool    `pb:"4"`
	Unit   string   `pb:"5"`
}

// Time is a moment.
type Time struct {
	Seconds int64 `pb:"1"`
	Nanos   int32 `pb:"2"`
}

// NewTime returns the message of a moment, nil for the zero time.
func NewTime(t time.Time) *Time {
	if t.IsZero() {
		return nil
	}
	return &Time{t.Unix(), int32(t.Nanosecond())}
}

// Time returns the moment, the zero time for nil.
func (t *Time) Time() time.Time {
	if t == nil || *t == (Time{}) {
		return time.Time{}
	}
	return time.Unix(t.Seconds, int64(t.Nanos))
}

// Duration is a span of time.
type Duration Time

// NewDuration returns the message of a span.
func NewDuration(d time.Duration) *Duration {
	return &Duration{int64(d / time.Second), int32(d % time.Second)}
}

// Span returns the span of time, 0 for nil.
func (d *Duration) Span() time.Duration {
	if d == nil {
		return 0
	}
	return time.Duration(d.Seconds)*time.Second + time.Duration(d.Nanos)
}
