/* waits MODE [ARGUMENT]: comes to the state that MODE names, and says `ready` before. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/ptrace.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t both;

static void ready(void) { puts("ready"); fflush(stdout); }

static void *b_then_a(void *unused) {
    pthread_mutex_lock(&b);
    pthread_barrier_wait(&both);
    pthread_mutex_lock(&a);
    return unused;
}

static void *sleeper(void *unused) { sleep(300); return unused; }

static void *spin(void *unused) { for (volatile unsigned long n = 0;; n++) { } return unused; }

static void *wait_for_signal_that_never_comes(void *unused) {
    pthread_mutex_lock(&a);
    for (;;) pthread_cond_wait(&never, &a);
    return unused;
}

static int word;
static int wake_later(void *of) {
    struct timespec t = {25, 0}; nanosleep(&t, NULL);
    *(int *)of = 1; syscall(SYS_futex, of, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0); return 0;
}

int main(int argc, char **argv) {
    const char *mode = argv[1];
    pthread_t thread;
#define IS(name) (strcmp(mode, name) == 0)
    if (IS("pause")) { ready(); for (;;) pause(); }
    if (IS("nanosleep")) { struct timespec t = {300, 0}; ready(); syscall(SYS_nanosleep, &t, NULL); }
    if (IS("absolute")) {
        struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); t.tv_sec += 300;
        ready(); clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
    }
    if (IS("sigwait")) { sigset_t s; sigemptyset(&s); sigaddset(&s, SIGUSR1); sigprocmask(SIG_BLOCK, &s, NULL); int n; ready(); sigwait(&s, &n); }
    if (IS("sigtimedwait")) {
        sigset_t s; sigemptyset(&s); sigaddset(&s, SIGUSR1); sigprocmask(SIG_BLOCK, &s, NULL);
        struct timespec t = {300, 0}; ready(); sigtimedwait(&s, NULL, &t);
    }
    if (IS("sigsuspend")) { sigset_t s; sigemptyset(&s); ready(); sigsuspend(&s); }
    if (IS("poll_timeout")) { ready(); poll(NULL, 0, 300000); }
    if (IS("timerfd")) {
        int fd = timerfd_create(CLOCK_MONOTONIC, 0); struct itimerspec t = {{0, 0}, {300, 0}}; uint64_t n;
        timerfd_settime(fd, 0, &t, NULL); ready(); read(fd, &n, sizeof n);
    }
    if (IS("eventfd")) { int fd = eventfd(0, 0); uint64_t n; ready(); read(fd, &n, sizeof n); }
    if (IS("epoll_eventfd")) {
        int fd = eventfd(0, 0), e = epoll_create1(0); struct epoll_event v = {EPOLLIN, {0}};
        epoll_ctl(e, EPOLL_CTL_ADD, fd, &v); ready(); epoll_wait(e, &v, 1, -1);
    }
    if (IS("semop")) { int id = semget(IPC_PRIVATE, 1, 0600); struct sembuf s = {0, -1, 0}; printf("id %d\n", id); ready(); semop(id, &s, 1); }
    if (IS("msgrcv")) { int id = msgget(IPC_PRIVATE, 0600); struct { long t; char c[8]; } m; printf("id %d\n", id); ready(); msgrcv(id, &m, 8, 0, 0); }
    if (IS("mq")) {
        struct mq_attr q = {0, 1, 8, 0, {0}}; mqd_t d = mq_open(argv[2], O_RDONLY | O_CREAT, 0600, &q); char c[8];
        mq_unlink(argv[2]); ready(); mq_receive(d, c, 8, NULL);
    }
    if (IS("vfork")) { ready(); if (vfork() == 0) { struct timespec t = {300, 0}; syscall(SYS_nanosleep, &t, NULL); _exit(0); } }
    if (IS("traced")) {
        pid_t child = fork();
        if (child == 0) { ptrace(PTRACE_TRACEME, 0, 0, 0); raise(SIGSTOP); _exit(0); }
        waitpid(child, NULL, 0); ready(); for (;;) pause();
    }
    if (IS("abba")) {
        pthread_barrier_init(&both, NULL, 2);
        pthread_mutex_lock(&a); pthread_create(&thread, NULL, b_then_a, NULL);
        pthread_barrier_wait(&both); ready(); pthread_mutex_lock(&b);
    }
    if (IS("abba_and_join")) {
        /* both in the cycle are threads; the main thread joins one of them */
        pthread_barrier_init(&both, NULL, 2);
        pthread_mutex_lock(&a); pthread_create(&thread, NULL, b_then_a, NULL); pthread_barrier_wait(&both);
        ready(); pthread_join(thread, NULL);
    }
    if (IS("limited_pair")) {
        /* two processes that wait for each other's word, each for 25 s at most: SO_RCVTIMEO */
        int s[2]; char c; struct timeval limit = {25, 0}; socketpair(AF_UNIX, SOCK_STREAM, 0, s);
        for (int i = 0; i < 2; i++) setsockopt(s[i], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        int mine = fork() != 0; close(s[!mine]); if (mine) ready();
        if (recv(s[mine], &c, 1, 0) < 0) return 0;
    }
    if (IS("relative")) {
        /* a process that shares this one's memory will wake it: clone(2) with CLONE_VM, not a thread */
        char *stack = malloc(65536); clone(wake_later, stack + 65536, CLONE_VM | SIGCHLD, &word); ready();
        syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0); return 0;
    }
    if (IS("self")) { pthread_mutex_lock(&a); ready(); pthread_mutex_lock(&a); }
    if (IS("lost_wakeup")) { ready(); wait_for_signal_that_never_comes(NULL); }
    if (IS("dead_owner")) {
        /* a mutex shared between processes, whose owner died with it */
        pthread_mutex_t *m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        pthread_mutexattr_t at; pthread_mutexattr_init(&at); pthread_mutexattr_setpshared(&at, PTHREAD_PROCESS_SHARED);
        pthread_mutex_init(m, &at);
        pid_t child = fork(); if (child == 0) { pthread_mutex_lock(m); _exit(0); }
        waitpid(child, NULL, 0); ready(); pthread_mutex_lock(m);
    }
    if (IS("mutex_of_a_sleeper")) {
        /* healthy: the owner only sleeps */
        pthread_create(&thread, NULL, sleeper, NULL); ready(); pthread_join(thread, NULL);
    }
    if (IS("spin")) { ready(); spin(NULL); }
    if (IS("threads")) { ready(); for (int i = 0; i < 3; i++) pthread_create(&thread, NULL, spin, NULL); pthread_join(thread, NULL); }
    if (IS("leader_gone")) { pthread_create(&thread, NULL, spin, NULL); ready(); pthread_exit(NULL); }
    if (IS("leader_gone_sleeps")) { pthread_create(&thread, NULL, sleeper, NULL); ready(); pthread_exit(NULL); }
    if (IS("io_uring")) {
        struct io_uring_params p; memset(&p, 0, sizeof p);
        int fd = syscall(SYS_io_uring_setup, 4, &p); if (fd < 0) { perror("io_uring"); return 1; }
        ready(); syscall(SYS_io_uring_enter, fd, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0);
    }
    if (IS("fault")) {
        /* reads random pages of a file, with a rest between: argument: file */
        int fd = open(argv[2], O_RDONLY); off_t size = lseek(fd, 0, SEEK_END);
        volatile char *m = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0); char sum = 0;
        madvise((void *)m, size, MADV_RANDOM); getchar(); ready();
        for (unsigned seed = 1;;) { sum += m[(unsigned long)rand_r(&seed) % (size / 4096) * 4096]; usleep(1500); }
    }
    if (IS("allocate")) {
        /* takes memory for ever, 64 KiB at a time, once told to */
        getchar(); ready();
        for (;;) { char *m = malloc(65536); memset(m, 1, 65536); }
    }
    fprintf(stderr, "waits: no mode %s\n", mode);
    return 2;
}
