package pluginwire

// DeviceFingerprint is one message of the stream Fingerprint of a device plugin.
type DeviceFingerprint struct {
	Groups []*DeviceGroup `pb:"1"`
}

// DeviceGroup is some equal devices.
type DeviceGroup struct {
	Vendor     string                `pb:"1"`
	Type       string                `pb:"2"`
	Name       string                `pb:"3"`
	Devices    []*DetectedDevice     `pb:"4"`
	Attributes map[string]*Attribute `pb:"5"`
}

// DetectedDevice is one device.
type DetectedDevice struct {
	ID                string          `pb:"1"`
	Healthy           bool            `pb:"2"`
	HealthDescription string          `pb:"3"`
	Locality          *DeviceLocality `pb:"4"`
}

// DeviceLocality is where in the machine it is.
type DeviceLocality struct {
	PCIBusID string `pb:"1"`
}

// Reserve asks how to give devices to a task.
type Reserve struct {
	IDs []string `pb:"1"`
}

// Reserved answers it.
type Reserved struct {
	Container *ContainerReservation `pb:"1"`
}

// ContainerReservation is what a task needs to use devices.
type ContainerReservation struct {
	Envs    map[string]string `pb:"1"`
	Mounts  []*DeviceMount    `pb:"2"`
	Devices []*Device         `pb:"3"`
}

// DeviceMount is a directory or file of the host that a task sees.
type DeviceMount struct {
	TaskPath string `pb:"1"`
	HostPath string `pb:"2"`
	ReadOnly bool   `pb:"3"`
}

// DeviceStatsRequest asks for the stream Stats.
type DeviceStatsRequest struct {
	Interval *Duration `pb:"1"`
}

// DeviceStatsResponse is one message of it.
type DeviceStatsResponse struct {
	Groups []*DeviceGroupStats `pb:"1"`
}

// DeviceGroupStats are the statistics of equal devices.
type DeviceGroupStats struct {
	Vendor    string                  `pb:"1"`
	Type      string                  `pb:"2"`
	Name      string                  `pb:"3"`
	Instances map[string]*DeviceStats `pb:"4"`
}

// DeviceStats are those of one device.
type DeviceStats struct {
	Summary *StatValue  `pb:"1"`
	Stats   *StatObject `pb:"2"`
	At      *Time       `pb:"3"`
}

// StatObject is a tree of values.
type StatObject struct {
	Nested     map[string]*StatObject `pb:"1"`
	Attributes map[string]*StatValue  `pb:"2"`
}

// StatValue is one value: a number, or a fraction if it has a denominator, a
// text or a truth.
type StatValue struct {
	Float       float64 `pb:"1"`
	FloatBase   float64 `pb:"2"`
	Int         int64   `pb:"3"`
	IntBase     int64   `pb:"4"`
	String      string  `pb:"5"`
	Bool        bool    `pb:"6"`
	Unit        string  `pb:"7"`
	Description string  `pb:"8"`
}
