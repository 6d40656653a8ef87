/* A load generator that costs little itself: one thread, epoll, requests as ready bytes, replies barely parsed.
 *
 *     http_load HOST PORT SECONDS FILE
 *
 * FILE holds one request per connection: "LENGTH_OF_WANTED LENGTH_OF_REQUEST\n", then these bytes. All connections are
 * opened at once. SECONDS > 0: each sends its request again as soon as it is answered, until that time. SECONDS = 0: each
 * sends it once (a reconnection of all pilots).
 *
 * Prints one JSON line: requests answered, those whose reply held the wanted text, those answered with HTTP 200 and 503,
 * connections that failed or ended without an answer, seconds, CPU seconds of this process, latencies, how many answers
 * had each status.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define LARGEST_REPLY 65536
#define N_STATUSES 1000

struct connection {
    int fd;
    char *wanted, *request;
    size_t n_wanted, n_request, n_sent, n_received, n_expected;
    double sent_at;
    char *reply;
};

static struct connection *connections;
static size_t n_connections, n_open, n_answered, n_with_wanted, n_ok, n_later, n_lost, n_latencies, n_room;
static size_t n_of_status[N_STATUSES];
static double *latencies, ends_at;
static int poller, once;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void read_requests(const char *path) {
    FILE *file = fopen(path, "rb");
    size_t n_wanted, n_request;
    if (!file) fail(path);
    while (fscanf(file, "%zu %zu", &n_wanted, &n_request) == 2) {
        if (fgetc(file) != '\n') fail("the file of requests");
        connections = realloc(connections, (n_connections + 1) * sizeof *connections);
        struct connection *one = &connections[n_connections++];
        memset(one, 0, sizeof *one);
        one->n_wanted = n_wanted;
        one->n_request = n_request;
        one->wanted = malloc(n_wanted + 1);
        one->request = malloc(n_request + 1);
        if (fread(one->wanted, 1, n_wanted, file) != n_wanted) fail("the file of requests");
        if (fread(one->request, 1, n_request, file) != n_request) fail("the file of requests");
    }
    fclose(file);
}

static void end(struct connection *one, int is_lost) {
    close(one->fd);
    one->fd = -1;
    free(one->reply);
    one->reply = NULL;
    n_open--;
    n_lost += is_lost;
}

static void watch(struct connection *one, unsigned events) {
    struct epoll_event event = {.events = events, .data.ptr = one};
    if (epoll_ctl(poller, EPOLL_CTL_MOD, one->fd, &event)) fail("epoll_ctl");
}

static void send_more(struct connection *one) {
    while (one->n_sent < one->n_request) {
        ssize_t n = send(one->fd, one->request + one->n_sent, one->n_request - one->n_sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) {
            watch(one, EPOLLIN | EPOLLOUT);
            return;
        }
        if (n < 0) {
            end(one, 1);
            return;
        }
        one->n_sent += (size_t)n;
    }
}

static void begin(struct connection *one) {
    one->n_sent = one->n_received = one->n_expected = 0;
    one->sent_at = now();
    if (!once && one->sent_at >= ends_at) {
        end(one, 0);
        return;
    }
    send_more(one);
}

static void answered(struct connection *one) {
    if (n_latencies == n_room) {
        n_room = n_room ? 2 * n_room : 65536;
        latencies = realloc(latencies, n_room * sizeof *latencies);
    }
    latencies[n_latencies++] = now() - one->sent_at;
    n_answered++;
    n_with_wanted += memmem(one->reply, one->n_received, one->wanted, one->n_wanted) != NULL;
    unsigned long status = strtoul(one->reply + sizeof "HTTP/1.1", NULL, 10) % N_STATUSES;
    n_of_status[status]++;
    n_ok += status == 200;
    n_later += status == 503;
    if (once)
        end(one, 0);
    else
        begin(one);
}

static void receive(struct connection *one) {
    if (!one->reply) one->reply = malloc(LARGEST_REPLY + 1);
    ssize_t n = recv(one->fd, one->reply + one->n_received, LARGEST_REPLY - one->n_received, 0);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
        end(one, 1);
        return;
    }
    one->n_received += (size_t)n;
    one->reply[one->n_received] = 0;
    if (!one->n_expected) {
        char *head = strstr(one->reply, "\r\n\r\n"), *length = strcasestr(one->reply, "content-length:");
        if (!head || !length) return;
        one->n_expected = (size_t)(head - one->reply) + 4 + strtoul(length + 15, NULL, 10);
    }
    if (one->n_received >= one->n_expected) answered(one);
}

static void open_one(struct connection *one, const struct sockaddr_in *address) {
    int yes = 1;
    one->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (one->fd < 0) fail("socket");
    setsockopt(one->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    one->sent_at = now();
    n_open++;
    if (connect(one->fd, (const struct sockaddr *)address, sizeof *address) && errno != EINPROGRESS) {
        end(one, 1);
        return;
    }
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT, .data.ptr = one};
    if (epoll_ctl(poller, EPOLL_CTL_ADD, one->fd, &event)) fail("epoll_ctl");
}

static void handle(struct connection *one, unsigned events) {
    if (one->fd < 0) return;
    if (events & (EPOLLERR | EPOLLHUP) && !(events & EPOLLIN)) {
        end(one, 1);
        return;
    }
    if (events & EPOLLOUT) {
        watch(one, EPOLLIN);
        if (one->n_sent == 0 && !once) /* the connection stands */
            begin(one);
        else
            send_more(one);
    }
    if (one->fd >= 0 && events & EPOLLIN) receive(one);
}

static int ascending(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

int main(int n_arguments, char **arguments) {
    if (n_arguments != 5) {
        fprintf(stderr, "usage: http_load HOST PORT SECONDS FILE\n");
        return 2;
    }
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(arguments[2]))};
    inet_pton(AF_INET, arguments[1], &address.sin_addr);
    double seconds = atof(arguments[3]), started = now();
    read_requests(arguments[4]);
    once = seconds <= 0;
    poller = epoll_create1(0);
    started = now();
    ends_at = started + seconds;
    for (size_t place = 0; place < n_connections; place++) open_one(&connections[place], &address);
    struct epoll_event events[512];
    while (n_open && now() < ends_at + 180) {
        int n = epoll_wait(poller, events, 512, 1000);
        for (int place = 0; place < n; place++) handle(events[place].data.ptr, events[place].events);
    }
    double elapsed = now() - started;
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    double cpu = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                 (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
    qsort(latencies, n_latencies, sizeof *latencies, ascending);
    double p50 = n_latencies ? latencies[n_latencies / 2] : 0, p99 = n_latencies ? latencies[n_latencies * 99 / 100] : 0;
    double longest = n_latencies ? latencies[n_latencies - 1] : 0;
    printf("{\"requests\": %zu, \"wanted\": %zu, \"ok\": %zu, \"later\": %zu, \"lost\": %zu, \"seconds\": %.6f, "
           "\"cpu_s\": %.6f, \"per_s\": %.3f, \"p50_s\": %.6f, \"p99_s\": %.6f, \"longest_s\": %.6f, \"statuses\": {",
           n_answered, n_with_wanted, n_ok, n_later, n_lost + n_open, elapsed, cpu, (double)n_answered / elapsed, p50, p99,
           longest);
    const char *between = "";
    for (unsigned status = 0; status < N_STATUSES; status++) {
        if (!n_of_status[status]) continue;
        printf("%s\"%u\": %zu", between, status, n_of_status[status]);
        between = ", ";
    }
    printf("}}\n");
    return 0;
}
