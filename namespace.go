package berth

// Namespace is a room for jobs whose names are their own.
type Namespace struct {
	Name        string
	Description string
	Quota       string
	Meta        map[string]string
	CreateIndex uint64
	ModifyIndex uint64
}
