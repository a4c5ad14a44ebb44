// An agent in Go whose tools are guarded by `picohook serve`, over a socket. Go 1.21, nothing else.
//
// Run it with:
//
//	picohook serve --config ../picohook.toml --socket hooks.sock &
//	until [ -S hooks.sock ]; do sleep 0.1; done
//	go run agent.go hooks.sock
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"sync"
)

type object = map[string]any

// Hooks is a connection to the sidecar. Any goroutine may ask; answers come as they are ready.
type Hooks struct {
	conn    io.ReadWriteCloser
	writing sync.Mutex
	mu      sync.Mutex // of what is below
	last    int64
	waiting map[int64]chan answer
	err     error
}

type answer struct {
	ID     int64           `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// Dial connects to the sidecar's socket.
func Dial(path string) (*Hooks, error) {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return nil, err
	}
	hooks := &Hooks{conn: conn, waiting: map[int64]chan answer{}}
	go hooks.read()
	return hooks, nil
}

func (h *Hooks) read() {
	lines := bufio.NewReader(h.conn)
	for {
		line, err := lines.ReadBytes('\n')
		var got answer
		if err == nil {
			err = json.Unmarshal(line, &got)
		}
		h.mu.Lock()
		if err != nil {
			h.err = fmt.Errorf("the sidecar is gone: %w", err)
			for _, waiter := range h.waiting {
				close(waiter)
			}
			h.mu.Unlock()
			return
		}
		if waiter, ok := h.waiting[got.ID]; ok {
			delete(h.waiting, got.ID)
			waiter <- got
		}
		h.mu.Unlock()
	}
}

// Ask calls a method, and reads its result into result.
func (h *Hooks) Ask(method string, params, result any) error {
	waiter := make(chan answer, 1)
	h.mu.Lock()
	if h.err != nil {
		h.mu.Unlock()
		return h.err
	}
	h.last++
	id := h.last
	h.waiting[id] = waiter
	h.mu.Unlock()
	if err := h.write(object{"jsonrpc": "2.0", "id": id, "method": method, "params": params}); err != nil {
		h.mu.Lock()
		delete(h.waiting, id)
		h.mu.Unlock()
		return err
	}
	got, ok := <-waiter
	switch {
	case !ok:
		return h.err
	case got.Error != nil:
		return fmt.Errorf("%s: %s (%d)", method, got.Error.Message, got.Error.Code)
	case result == nil:
		return nil
	}
	return json.Unmarshal(got.Result, result)
}

// write has its own lock: answers still arrive while the sidecar reads nothing. A line is never split.
func (h *Hooks) write(request object) error {
	line, err := json.Marshal(request)
	if err != nil {
		return err
	}
	h.writing.Lock()
	defer h.writing.Unlock()
	_, err = h.conn.Write(append(line, '\n'))
	return err
}

// Call is a tool call, as the hooks see it.
type Call struct {
	Meta      object          `json:"meta"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"` // raw: what hooks leave is what runs, to the last digit
	Result    *Result         `json:"result,omitempty"`
}

// Result is the result of a call, for the model.
type Result struct {
	ForLLM string `json:"for_llm"`
}

// Outcome is the decision of the hooks at a stage.
type Outcome struct {
	Action   string  `json:"action"`
	Payload  *Call   `json:"payload"` // a continue has none
	Approved *bool   `json:"approved"`
	Result   *Result `json:"result"`
	Reason   string  `json:"reason"`
	ForLLM   string  `json:"reason_for_llm"` // given where a hook failed: Reason is for people then
}

// denied is the text for the model about a call that does not run.
func (o Outcome) denied(by string) string {
	reason := o.ForLLM
	if reason == "" {
		reason = o.Reason
	}
	if reason == "" {
		return "Tool execution denied by " + by
	}
	return "Tool execution denied by " + by + ": " + reason
}

func (o Outcome) goesOn() error {
	if o.Action == "continue" || o.Action == "modify" {
		return nil
	}
	return errors.New(o.Action + ": " + o.Reason) // pause, abort_turn, hard_abort
}

// RunTool makes a whole tool call: before, approve, execute, after. It returns the text for the model.
func (h *Hooks) RunTool(call Call, execute func(json.RawMessage) (string, error)) (string, error) {
	var before, approval, after Outcome
	if err := h.Ask("before_tool", call, &before); err != nil {
		return "", err
	}
	switch {
	case before.Action == "respond":
		return before.Result.ForLLM, nil
	case before.Action == "deny_tool" && before.Approved != nil && !*before.Approved:
		return before.denied("approval hook"), nil
	case before.Action == "deny_tool":
		return before.denied("hook"), nil
	}
	if err := before.goesOn(); err != nil {
		return "", err
	}
	if before.Payload != nil {
		call = *before.Payload // as the hooks left it
	}
	if err := h.Ask("approve_tool", call, &approval); err != nil {
		return "", err
	}
	if approval.Approved == nil || !*approval.Approved {
		return approval.denied("approval hook"), nil
	}
	said, err := execute(call.Arguments)
	if err != nil {
		return "", err
	}
	call.Result = &Result{ForLLM: said}
	if err := h.Ask("after_tool", call, &after); err != nil {
		return "", err
	}
	if err := after.goesOn(); err != nil {
		return "", err
	}
	if after.Payload != nil {
		call = *after.Payload
	}
	return call.Result.ForLLM, nil
}

func tool(arguments json.RawMessage) (string, error) {
	return "password=hunter2", nil // what the agent's own tools would do
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: go run agent.go SOCKET")
	}
	hooks, err := Dial(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	var session struct{ Session string }
	var turn struct{ Turn string }
	check(hooks.Ask("session.start", object{}, &session))
	check(hooks.Ask("turn.start", object{"session": session.Session, "user_message": "Look around."}, &turn))

	calls := []Call{
		{Tool: "read_file", Arguments: json.RawMessage(`{"path": "notes.txt"}`)},
		{Tool: "bash", Arguments: json.RawMessage(`{"command": "rm -rf /"}`)},
		{Tool: "bash", Arguments: json.RawMessage(`{"command": "ls"}`)},
		{Tool: "get_weather", Arguments: json.RawMessage(`{"city": "Tokyo"}`)},
	}
	results := make([]string, len(calls))
	var tools sync.WaitGroup
	for place, call := range calls {
		tools.Add(1)
		go func(place int, call Call) {
			defer tools.Done()
			call.Meta = object{"TurnID": turn.Turn}
			result, err := hooks.RunTool(call, tool)
			check(err)
			results[place] = result
		}(place, call)
	}
	tools.Wait()
	for _, result := range results {
		fmt.Println(result)
	}
	check(hooks.Ask("turn.end", object{"turn": turn.Turn}, nil))
	check(hooks.Ask("session.end", object{"session": session.Session}, nil))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
