// Threads of each rank count together, each with a context of its own: C++ needs no other header.
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "farside.h"

namespace {

constexpr unsigned kThreads = 3;
constexpr std::uint64_t kSteps = 500;

// Turns an error into an exception.
void check(int code) {
    if (code != FARSIDE_OK) {
        throw std::runtime_error(std::string(farside_error_name(code)) + ": " +
                                 farside_error_text());
    }
}

// A context of this thread.
class Context {
public:
    explicit Context(farside_context_t world) { check(farside_context_create(world, &context_)); }
    ~Context() { farside_context_free(context_); }
    Context(const Context &) = delete;
    Context &operator=(const Context &) = delete;
    farside_context_t get() const { return context_; }

private:
    farside_context_t context_{};
};

void run() {
    farside_context_t world{};
    farside_team_t team{};
    farside_window_t window{};
    std::uint32_t rank = 0, size = 0;
    check(farside_join(&world));
    check(farside_rank(world, &rank));
    check(farside_size(world, &size));
    check(farside_team_world(world, &team));
    check(farside_window_allocate(team, sizeof(std::uint64_t), &window));
    {
        // Contexts are made by the thread that has joined, and used by one thread each.
        std::vector<Context *> contexts;
        std::vector<std::thread> threads;
        std::vector<std::string> errors(kThreads);
        for (unsigned at = 0; at < kThreads; at++) {
            contexts.push_back(new Context(world));
        }
        for (unsigned at = 0; at < kThreads; at++) {
            threads.emplace_back([&, at] {
                try {
                    for (std::uint64_t step = 0; step < kSteps; step++) {
                        const auto to = static_cast<std::uint32_t>((rank + step) % size);
                        check(farside_fetch_add(contexts[at]->get(), window, to, 0, 1, nullptr));
                    }
                } catch (const std::exception &error) {
                    errors[at] = error.what();
                }
            });
        }
        for (auto &thread : threads) {
            thread.join();
        }
        for (auto *context : contexts) {
            delete context;
        }
        for (const auto &error : errors) {
            if (!error.empty()) {
                throw std::runtime_error(error);
            }
        }
    }
    check(farside_sync(team));
    std::uint64_t sum = 0;
    check(farside_load(world, window, rank, 0, &sum));
    check(farside_all_reduce(team, &sum, &sum, 1, FARSIDE_U64, FARSIDE_SUM));
    if (sum != kThreads * kSteps * size) {
        throw std::runtime_error("an addition is lost");
    }
    if (rank == 0) {
        std::printf("threads: %u threads of %u ranks\n", kThreads, static_cast<unsigned>(size));
    }
    check(farside_window_free(team, window));
    check(farside_leave(world));
}

} // namespace

int main() {
    try {
        run();
        return 0;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "threads: %s\n", error.what());
        return 1;
    }
}
