//go:build amd64 || arm64

package wire

import (
	"context"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-bench/assay/record"
)

const (
	// loopBatch is how many connections are looked at between two looks at the
	// inbox and the deadlines: about a millisecond's work.
	loopBatch = 128
	// loopBuffer is the size of the one read buffer of a worker, in bytes.
	loopBuffer = 64 << 10
	// spareBuffers and spareSize bound the buffers for events that are split
	// between reads which a worker keeps when no stream needs them.
	spareBuffers, spareSize = 256, 4 << 10
)

// worker is one thread of a Loop.
type worker struct {
	loop     *Loop
	epoll    int
	wakeFD   int
	inFlight atomic.Int64

	mu       sync.Mutex
	inbox    []*stream
	cuts     []<-chan struct{} // contexts that have ended
	quitting bool
	posted   atomic.Bool // something is in the above
	asleep   atomic.Bool // in epoll_wait, or about to be

	// Of the thread alone.
	taken     []*stream
	takenCuts []<-chan struct{}
	slots     []slot
	free      []int32
	deadlines deadlines[*stream]
	watches   map[<-chan struct{}]*watch
	spare     [][]byte
	rx        receiver
	events    [loopBatch]unix.EpollEvent
	buf       [loopBuffer]byte
}

// slot is where epoll finds a stream. An event that was taken before its stream
// ended, and is looked at after that, has another generation.
type slot struct {
	s   *stream
	gen int32
}

// watch is a context, and the streams that end with it.
type watch struct {
	first *stream
	stop  func() bool
}

func newWorker(l *Loop) (*worker, error) {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	wake, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err == nil {
		// Slot 0 is nobody's.
		err = unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, wake, &unix.EpollEvent{Events: unix.EPOLLIN})
	}
	if err != nil {
		_ = unix.Close(ep)
		return nil, os.NewSyscallError("eventfd", err)
	}
	w := &worker{loop: l, epoll: ep, wakeFD: wake, watches: make(map[<-chan struct{}]*watch)}
	w.slots = make([]slot, 1, 64)
	w.rx.wall = l.client.wall
	w.rx.iov.Base = &w.buf[0]
	w.rx.iov.SetLen(len(w.buf))
	w.rx.msg.Iov, w.rx.msg.Iovlen = &w.rx.iov, 1
	return w, nil
}

// post hands a stream to the thread. It returns false if the thread has ended.
func (w *worker) post(s *stream) bool {
	w.mu.Lock()
	if w.quitting {
		w.mu.Unlock()
		return false
	}
	w.inbox = append(w.inbox, s)
	w.posted.Store(true)
	w.mu.Unlock()
	w.wake()
	return true
}

// cut tells the thread that a context has ended.
func (w *worker) cut(done <-chan struct{}) {
	w.mu.Lock()
	w.cuts = append(w.cuts, done)
	w.posted.Store(true)
	w.mu.Unlock()
	w.wake()
}

func (w *worker) quit() {
	w.mu.Lock()
	w.quitting = true
	w.posted.Store(true)
	w.mu.Unlock()
	w.wake()
}

// wake ends the thread's wait. The thread says that it is asleep before it looks
// at posted for the last time; we look after posted was set.
func (w *worker) wake() {
	if w.asleep.CompareAndSwap(true, false) {
		// It can fail only if the counter is full, and then the thread is awake.
		_, _ = unix.Write(w.wakeFD, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
}

func (w *worker) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for w.intake() {
		for i := range w.wait() {
			w.handle(&w.events[i])
		}
		w.expire()
	}
	closed := &Error{Outcome: record.Interrupted, Err: errClosed}
	for i := range w.slots {
		if s := w.slots[i].s; s != nil {
			s.broken(closed)
		}
	}
	_ = unix.Close(w.wakeFD)
	_ = unix.Close(w.epoll)
}

// intake takes what others have left. It returns false if it is time to go.
func (w *worker) intake() bool {
	if !w.posted.Load() {
		return true
	}
	w.mu.Lock()
	w.posted.Store(false)
	w.taken, w.inbox = w.inbox, w.taken[:0]
	w.takenCuts, w.cuts = w.cuts, w.takenCuts[:0]
	quitting := w.quitting
	w.mu.Unlock()
	for i, s := range w.taken {
		w.taken[i] = nil
		w.adopt(s)
	}
	for i, done := range w.takenCuts {
		w.takenCuts[i] = nil
		for wt := w.watches[done]; wt != nil && wt.first != nil; {
			wt.first.broken(context.Canceled)
		}
	}
	return !quitting
}

// wait returns how many events there are.
func (w *worker) wait() int {
	timeout := -1
	if s, ok := w.deadlines.first(); ok {
		left := time.Duration(s.deadline - w.loop.client.now())
		// Rounded up, or it would spin for the rest of the millisecond.
		timeout = int(min(max(0, left+time.Millisecond-1)/time.Millisecond, 1<<30))
	}
	w.asleep.Store(true)
	if w.posted.Load() {
		timeout = 0
	}
	n, err := unix.EpollWait(w.epoll, w.events[:], timeout)
	w.asleep.Store(false)
	if err != nil { // EINTR
		return 0
	}
	return n
}

func (w *worker) handle(e *unix.EpollEvent) {
	if e.Fd == 0 {
		var b [8]byte
		_, _ = unix.Read(w.wakeFD, b[:])
		return
	}
	at := w.slots[e.Fd]
	if at.s == nil || at.gen != e.Pad {
		return
	}
	if e.Events&unix.EPOLLERR != 0 && w.loop.client.cfg.VerifySend > 0 {
		at.s.takeTransmit() // or epoll would tell of it again and again
	}
	switch s := at.s; s.state {
	case connecting:
		s.connected()
	case sending:
		s.write()
		if s.state != sending {
			w.listen(s)
		}
	default:
		w.read(s)
	}
}

// read is one raw read. A stream that has more is told of again.
func (w *worker) read(s *stream) {
	if !w.rx.poll(s.sock.fd) {
		return
	}
	now := w.loop.client.now()
	n := w.rx.n
	switch {
	case w.rx.errno != 0:
		s.broken(os.NewSyscallError("recvmsg", w.rx.errno))
	case n == 0:
		s.broken(io.EOF)
	default:
		st := ReadStamp{At: now, Read: now, Shared: n == len(w.buf)}
		w.rx.control(&st)
		s.received(w.buf[:n], st)
	}
}

// adopt takes a stream into the tables.
func (w *worker) adopt(s *stream) {
	if s.state == refused {
		s.finish(s.err)
		return
	}
	if n := len(w.free); n > 0 {
		s.slot = w.free[n-1]
		w.free = w.free[:n-1]
	} else {
		w.slots = append(w.slots, slot{})
		s.slot = int32(len(w.slots) - 1)
	}
	w.slots[s.slot].s = s
	w.deadlines.set(s, s.deadline)
	w.follow(s)
	if err := w.control(unix.EPOLL_CTL_ADD, s); err != nil {
		s.broken(os.NewSyscallError("epoll_ctl", err))
	}
}

// forget takes a stream out of the tables, if it is there.
func (w *worker) forget(s *stream) {
	if s.slot == 0 {
		return
	}
	_ = w.control(unix.EPOLL_CTL_DEL, s)
	w.unfollow(s)
	w.deadlines.set(s, 0)
	w.slots[s.slot] = slot{gen: w.slots[s.slot].gen + 1}
	w.free = append(w.free, s.slot)
	s.slot = 0
}

// listen waits for what the stream needs now.
func (w *worker) listen(s *stream) {
	if err := w.control(unix.EPOLL_CTL_MOD, s); err != nil {
		s.broken(os.NewSyscallError("epoll_ctl", err))
	}
}

func (w *worker) control(op int, s *stream) error {
	e := unix.EpollEvent{Events: unix.EPOLLIN, Fd: s.slot, Pad: w.slots[s.slot].gen}
	if s.state == connecting || s.state == sending {
		e.Events = unix.EPOLLOUT
	}
	return unix.EpollCtl(w.epoll, op, s.sock.fd, &e)
}

// follow ends the stream with its context. Streams that share one are in a list.
func (w *worker) follow(s *stream) {
	done := s.ctx.Done()
	if done == nil {
		return
	}
	wt := w.watches[done]
	if wt == nil {
		wt = &watch{stop: context.AfterFunc(s.ctx, func() { w.cut(done) })}
		w.watches[done] = wt
	}
	s.watch, s.next = wt, wt.first
	if s.next != nil {
		s.next.prev = s
	}
	wt.first = s
}

func (w *worker) unfollow(s *stream) {
	wt := s.watch
	if wt == nil {
		return
	}
	if s.prev != nil {
		s.prev.next = s.next
	} else {
		wt.first = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	}
	s.watch, s.next, s.prev = nil, nil, nil
	if wt.first == nil {
		wt.stop()
		delete(w.watches, s.ctx.Done())
	}
}

// expire ends the streams whose deadline has passed. What lies in the socket by
// then has come in time, however late we are: it is read first.
func (w *worker) expire() {
	for {
		s, ok := w.deadlines.first()
		if !ok {
			return
		}
		now := w.loop.client.now()
		if s.deadline > now {
			return
		}
		if (s.limit == record.TimeoutFirst || s.limit == record.TimeoutIdle) && s.state >= heading {
			at, gen := s.slot, w.slots[s.slot].gen
			w.read(s)
			if w.slots[at].gen != gen || s.deadline > now {
				continue
			}
		}
		s.expire(now)
	}
}

// lend gives a decoder buffers for what outlives a read.
func (w *worker) lend(d *Decoder) {
	for _, b := range [...]*[]byte{&d.split.carry, &d.split.data, &d.split.name} {
		if n := len(w.spare); *b == nil && n > 0 {
			*b = w.spare[n-1]
			w.spare = w.spare[:n-1]
		}
	}
}

// reclaim takes back those that hold nothing.
func (w *worker) reclaim(d *Decoder) {
	s := &d.split
	if len(s.carry) == 0 {
		w.retake(&s.carry)
	}
	if !s.hasData && d.framing != Whole {
		w.retake(&s.data)
	}
	if !s.hasName {
		w.retake(&s.name)
	}
}

func (w *worker) retake(b *[]byte) {
	if c := cap(*b); c > 0 && c <= spareSize && len(w.spare) < spareBuffers {
		w.spare = append(w.spare, (*b)[:0])
	}
	*b = nil
}
