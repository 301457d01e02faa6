package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/distribution/reference"
	"github.com/moby/moby/client"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/driverconfig"
	"berth/internal/saferoot"
)

// image sees to it that the engine has the task's image and returns its ID.
func (d *Driver) image(ctx context.Context, t *driver.Task, v driverconfig.Values) (string, error) {
	name, named, err := parseImage(v.String("image"))
	if err != nil {
		return "", err
	}
	if file := v.String("load"); file != "" {
		return d.load(ctx, t, name, file)
	}
	if !v.Bool("force_pull") && !pullsAlways(named) {
		if got, err := d.engine.ImageInspect(ctx, name); err == nil {
			return got.ID, nil
		} else if !gone(err) {
			return "", errf("image "+name, err)
		}
	}
	auth, err := d.credentials(ctx, named, v.Block("auth"))
	if err != nil {
		if !v.Bool("auth_soft_fail") {
			return "", fmt.Errorf("credentials for the image %s: %w", name, err)
		}
		d.log.Warn("an image is pulled without credentials", "image", name, "error", err)
	}
	limit := v.Duration("image_pull_timeout")
	if limit == 0 {
		limit = d.c.PullTimeout
	}
	return d.pulls.pull(ctx, name, auth, limit, t.Progress)
}

// parseImage returns the full name of an image, with the tag latest if it has
// neither tag nor digest.
func parseImage(s string) (string, reference.Named, error) {
	s = strings.TrimPrefix(strings.TrimPrefix(s, "https://"), "http://")
	n, err := reference.ParseNormalizedNamed(s)
	if err != nil {
		return "", nil, berth.Errorf(berth.Invalid, "config.image: %q is not the name of an image: %w", berth.Clip(s, 200), err)
	}
	n = reference.TagNameOnly(n)
	return reference.FamiliarString(n), n, nil
}

// pullsAlways reports whether an image is pulled though the engine has it.
func pullsAlways(n reference.Named) bool {
	t, ok := n.(reference.Tagged)
	return ok && t.Tag() == "latest"
}

// load loads an image from an archive in the task's directory local.
func (d *Driver) load(ctx context.Context, t *driver.Task, name, file string) (string, error) {
	root, err := saferoot.Open(t.Dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	f, err := root.OpenFile("local/"+strings.TrimPrefix(strings.TrimPrefix(file, "/"), "local/"), os.O_RDONLY, 0)
	if err != nil {
		return "", berth.Errorf(berth.Invalid, "config.load: %w", err)
	}
	defer f.Close()
	t.Progress("Loading the image from " + file)
	out, err := d.engine.ImageLoad(ctx, f, client.ImageLoadWithQuiet(true))
	if err != nil {
		return "", errf("config.load: "+file, err)
	}
	err = errors.Join(follow(out, nil), out.Close())
	if err != nil && ctx.Err() == nil { // the engine has read it, and says what is wrong with it
		return "", berth.Errorf(berth.Invalid, "config.load: %s: %w", file, err)
	}
	if err != nil {
		return "", errf("config.load: "+file, err)
	}
	got, err := d.engine.ImageInspect(ctx, name)
	if err != nil {
		return "", berth.Errorf(berth.Invalid, "config.load: %s was loaded, and it does not contain the image %s", file, name)
	}
	return got.ID, nil
}

// pulls has each image pulled once for all tasks that wait for it.
type pulls struct {
	d     *Driver
	every time.Duration // how often a long pull is told of
	mu    sync.Mutex
	by    map[string]*pull // by image and credentials
}

// pull is one that is under way.
type pull struct {
	cancel context.CancelFunc
	done   chan struct{}
	id     string // when done
	err    error  // when done

	// Guarded by pulls.mu.
	waiting int
	state   string // what was last told of it
}

// pull pulls an image, or waits for the pull that is under way, and returns the
// image's ID. The pull ends when nobody waits for it any more, and after limit.
func (ps *pulls) pull(ctx context.Context, name, auth string, limit time.Duration, progress func(string)) (string, error) {
	progress("Downloading image " + name)
	key := name + "\x00" + auth
	ps.mu.Lock()
	p := ps.by[key]
	if p == nil {
		pctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
		p = &pull{cancel: cancel, done: make(chan struct{})}
		if ps.by == nil {
			ps.by = map[string]*pull{}
		}
		ps.by[key] = p
		go ps.run(pctx, key, p, name, auth)
	}
	p.waiting++
	ps.mu.Unlock()
	defer ps.leave(key, p)
	began, tick := time.Now(), time.NewTicker(ps.every)
	defer tick.Stop()
	for {
		select {
		case <-p.done:
			if errors.Is(p.err, context.DeadlineExceeded) {
				return "", driver.Recoverable(fmt.Errorf("image %s: the pull took longer than %v, its image_pull_timeout", name, limit))
			}
			return p.id, p.err
		case <-ctx.Done():
			return "", ctx.Err()
		case <-tick.C:
			ps.mu.Lock()
			state := p.state
			ps.mu.Unlock()
			progress(fmt.Sprintf("Downloading image %s for %v: %s", name, time.Since(began).Round(time.Second), state))
		}
	}
}

// progressEvery is how often a long pull is told of.
const progressEvery = 30 * time.Second

// leave ends a pull that nobody waits for.
func (ps *pulls) leave(key string, p *pull) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p.waiting--; p.waiting == 0 {
		p.cancel()
		if ps.by[key] == p {
			delete(ps.by, key)
		}
	}
}

// run pulls an image and tells all who wait.
func (ps *pulls) run(ctx context.Context, key string, p *pull, name, auth string) {
	p.id, p.err = ps.one(ctx, p, name, auth)
	ps.mu.Lock()
	if ps.by[key] == p {
		delete(ps.by, key)
	}
	ps.mu.Unlock()
	close(p.done)
}

// one pulls an image.
func (ps *pulls) one(ctx context.Context, p *pull, name, auth string) (string, error) {
	engine := ps.d.engine
	out, err := engine.ImagePull(ctx, name, client.ImagePullOptions{RegistryAuth: auth})
	if err == nil {
		err = errors.Join(follow(out, func(s string) {
			ps.mu.Lock()
			defer ps.mu.Unlock()
			p.state = s
		}), out.Close())
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	switch {
	case err == nil:
	case auth == "" && !wrong(err):
		return "", errf("image "+name+" (pulled without credentials)", err)
	case auth != "" && ps.d.refused(ctx, name, auth):
		return "", berth.Errorf(berth.Denied, "image %s: the registry refuses the credentials: %s", name, clipped(err))
	default:
		return "", errf("image "+name, err)
	}
	got, err := engine.ImageInspect(ctx, name)
	if err != nil {
		return "", errf("image "+name, err)
	}
	return got.ID, nil
}

// follow reads the messages of a pull or a load, and returns the error that the
// last of them is.
func follow(r io.Reader, tell func(string)) error {
	for dec := json.NewDecoder(r); ; {
		var m struct {
			ID, Status, Progress, Error string
		}
		if err := dec.Decode(&m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if m.Error != "" {
			return errors.New(m.Error)
		}
		if tell != nil && m.Status != "" {
			tell(strings.TrimSpace(strings.Join([]string{m.ID, m.Status, m.Progress}, " ")))
		}
	}
}

// images knows which images our containers use, and has those removed that none
// does for a while.
type images struct {
	d        *Driver
	mu       sync.Mutex
	users    map[string]map[any]bool  // by image: IDs of containers, and launches that are about to make one
	timers   map[string]*time.Timer   // of images that are to be removed
	removing map[string]chan struct{} // closed when the removal of an image has ended
}

// holdImage sees to it that the engine has the task's image until the launch drops
// it, and returns the image's ID.
func (d *Driver) holdImage(ctx context.Context, t *driver.Task, v driverconfig.Values, l launch) (string, error) {
	for try := 1; ; try++ {
		image, err := d.image(ctx, t, v)
		if err == nil {
			err = d.images.hold(ctx, image, l)
		}
		if err != nil {
			return "", err
		}
		// It may have been removed before it was held.
		_, err = d.engine.ImageInspect(ctx, image)
		if err == nil {
			return image, nil
		}
		d.images.drop(image, l)
		if !gone(err) || try == 3 {
			return "", driver.Recoverable(fmt.Errorf("image %s: %w", image, err))
		}
	}
}

// hold says that a launch is about to make a container of the image. If the image
// is being removed, hold waits for the end of that.
func (im *images) hold(ctx context.Context, image string, l launch) error {
	for {
		im.mu.Lock()
		removed := im.removing[image]
		if removed == nil {
			im.add(image, l)
		}
		im.mu.Unlock()
		if removed == nil {
			return nil
		}
		select {
		case <-removed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// use says that a container has the image.
func (im *images) use(image, container string) {
	im.mu.Lock()
	defer im.mu.Unlock()
	im.add(image, container)
}

// add adds a user. The caller holds mu.
func (im *images) add(image string, user any) {
	if im.users == nil {
		im.users, im.timers, im.removing = map[string]map[any]bool{}, map[string]*time.Timer{}, map[string]chan struct{}{}
	}
	if im.users[image] == nil {
		im.users[image] = map[any]bool{}
	}
	im.users[image][user] = true
	if t := im.timers[image]; t != nil {
		t.Stop()
		delete(im.timers, image)
	}
}

// drop says that a container is gone, or that a launch has made its container or
// makes none.
func (im *images) drop(image string, user any) {
	im.mu.Lock()
	defer im.mu.Unlock()
	delete(im.users[image], user)
	if len(im.users[image]) > 0 || im.d.c.KeepImages || im.timers == nil || im.timers[image] != nil {
		return
	}
	delete(im.users, image)
	im.timers[image] = time.AfterFunc(im.d.c.ImageDelay, func() { im.remove(image) })
}

// remove removes an image that nobody has begun to use meanwhile. One that a
// container of somebody else uses stays: the engine refuses.
func (im *images) remove(image string) {
	im.mu.Lock()
	delete(im.timers, image)
	if len(im.users[image]) > 0 || im.removing[image] != nil {
		im.mu.Unlock()
		return
	}
	removed := make(chan struct{})
	im.removing[image] = removed
	im.mu.Unlock()
	defer func() {
		im.mu.Lock()
		defer im.mu.Unlock()
		delete(im.removing, image)
		close(removed)
	}()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	got, err := im.d.engine.ImageInspect(ctx, image)
	if err == nil {
		// An image with several names is removed by them.
		for _, name := range append(got.RepoTags, image) {
			if _, e := im.d.engine.ImageRemove(ctx, name, client.ImageRemoveOptions{PruneChildren: true}); e != nil && !gone(e) {
				err = e
			}
		}
	}
	if err != nil && !gone(err) && !taken(err) {
		im.d.log.Warn("an unused image cannot be removed", "image", image, "error", err)
	}
}
