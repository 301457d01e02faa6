package broker

// freed remembers, for each K, when it got room last, of each kind: an
// evaluation that was decided on an older state missed that, and does not wait
// at all.
type freed[K comparable] struct {
	at    map[K]*roomAt
	most  int    // of them
	any   uint64 // the newest index of all
	floor uint64 // the newest index of those that are not among them any more
}

// roomAt is the newest index at which there was room of each kind.
type roomAt [roomKinds]uint64

// How many classes and nodes are remembered: nodes that change make new classes.
const (
	classesKept = 4096
	nodesKept   = 1 << 16
)

func remember[K comparable](most int) freed[K] { return freed[K]{at: map[K]*roomAt{}, most: most} }

// note notes that k got room at an index.
func (f *freed[K]) note(k K, r Room, index uint64) {
	if len(f.at) >= f.most {
		clear(f.at)
		f.floor = f.any
	}
	at := f.at[k]
	if at == nil {
		at = new(roomAt)
		f.at[k] = at
	}
	for kind := range at {
		if r&(1<<kind) != 0 {
			at[kind] = max(at[kind], index)
		}
	}
	f.any = max(f.any, index)
}

// everywhere notes that there can be room anywhere.
func (f *freed[K]) everywhere(index uint64) {
	clear(f.at)
	f.any, f.floor = max(f.any, index), max(f.floor, index)
}

// since says, if that is sure without a look at each, whether there was room
// after an index: nowhere, or perhaps wherever it is asked for.
func (f *freed[K]) since(index uint64) (sure, all bool) {
	return f.any <= index || f.floor > index, f.any > index
}

// since returns the kinds of which there was room after an index.
func (at *roomAt) since(index uint64) (r Room) {
	if at == nil {
		return 0
	}
	for kind, when := range at {
		if when > index {
			r |= 1 << kind
		}
	}
	return r
}
