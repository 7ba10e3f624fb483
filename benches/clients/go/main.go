// Clients that want one lock; benches/compare starts them, and docs/bench.md tells what it counts.
//
//	contest contend ADDRESS WHO SECONDS   says "ready", waits for a line, has 8 clients contend for so long, and prints a
//	                                      line for each grant: when it came, and which client's it was
//	contest hold ADDRESS WHO KEY          says "ready", then takes and gives back one lock as the lines "acquire" and
//	                                      "release" say, and prints when it had it, or began to give it back
//
// Times are in ns of the one clock that all processes read.
package main

import (
	"bufio"
	"fmt"
	"log"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const clients = 8

func main() {
	if len(os.Args) != 5 || locks[os.Args[3]] == nil {
		log.Fatal("usage: contest contend|hold ADDRESS WHO SECONDS|KEY")
	}
	mode, address, open, last := os.Args[1], os.Args[2], locks[os.Args[3]], os.Args[4]
	lines := bufio.NewScanner(os.Stdin)
	if mode == "hold" {
		hold(open(address, last), lines)
		return
	}
	seconds, err := strconv.ParseFloat(last, 64)
	check(err)
	contend(func() lock { return open(address, "contested") }, lines, time.Duration(seconds*float64(time.Second)))
}

func contend(open func() lock, lines *bufio.Scanner, length time.Duration) {
	var opened []lock
	for range clients {
		opened = append(opened, open())
	}
	fmt.Println("ready")
	lines.Scan()
	end := time.Now().Add(length)
	var grants [clients][]int64
	var running sync.WaitGroup
	for client, lock := range opened {
		running.Go(func() {
			for time.Now().Before(end) {
				lock.acquire()
				grants[client] = append(grants[client], now())
				lock.release()
				lock.rest()
			}
		})
	}
	running.Wait()
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for client, times := range grants {
		for _, time := range times {
			fmt.Fprintln(out, time, client)
		}
	}
}

func hold(lock lock, lines *bufio.Scanner) {
	fmt.Println("ready")
	for lines.Scan() {
		if lines.Text() == "acquire" {
			lock.acquire()
			fmt.Println(now())
		} else {
			fmt.Println(now())
			lock.release()
		}
	}
}

func now() int64 {
	var time unix.Timespec
	check(unix.ClockGettime(unix.CLOCK_MONOTONIC, &time))
	return time.Nano()
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
