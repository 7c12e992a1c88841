// The interface as C++ sees it, with lambdas, vectors and types of its own.
#include <algorithm>
#include <complex>
#include <numeric>
#include <vector>
#include "case.h"

// A window that is freed at the end of a scope.
class Window {
public:
    explicit Window(int count) { win = make_ints(count, &base); }
    ~Window() { OK(MPI_Win_free(&win)); }
    Window(const Window &) = delete;
    Window &operator=(const Window &) = delete;

    MPI_Win win;
    int *base;
};

static void scope(void)
{
    std::vector<int> out(16), back(16);
    std::iota(out.begin(), out.end(), me * 100);
    Window window(16);
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right(), 0, window.win));
    OK(MPI_Put(out.data(), 16, MPI_INT, right(), 0, 16, MPI_INT, window.win));
    OK(MPI_Win_flush(right(), window.win));
    OK(MPI_Get(back.data(), 16, MPI_INT, right(), 0, 16, MPI_INT, window.win));
    OK(MPI_Win_unlock(right(), window.win));
    CHECK(out == back);
    settle(window.win);
    for (int i = 0; i < 16; i++)
        EQ(window.base[i], left() * 100 + i);
}

static void vector_as_window(void)
{
    std::vector<double> memory(32, 1.5);
    MPI_Win win;
    OK(MPI_Win_create(memory.data(), static_cast<MPI_Aint>(32 * sizeof(double)), sizeof(double),
                      MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    double add = me;
    OK(MPI_Win_fence(0, win));
    OK(MPI_Accumulate(&add, 1, MPI_DOUBLE, right(), 31, 1, MPI_DOUBLE, MPI_SUM, win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    CHECK(memory[31] == 1.5 + left());
    CHECK(std::count(memory.begin(), memory.end(), 1.5) >= 31);
    OK(MPI_Win_free(&win));
}

static void complex_numbers(void)
{
    std::complex<double> *base, one(1, me);
    MPI_Win win;
    OK(MPI_Win_allocate(64, sizeof one, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    std::fill(base, base + 4, std::complex<double>(0, 0));
    settle(win);
    OK(MPI_Win_lock_all(0, win));
    OK(MPI_Accumulate(&one, 1, MPI_CXX_DOUBLE_COMPLEX, 0, 1, 1, MPI_CXX_DOUBLE_COMPLEX, MPI_SUM,
                      win));
    OK(MPI_Win_unlock_all(win));
    settle(win);
    if (me == 0)
        CHECK(base[1] == std::complex<double>(ranks, ranks * (ranks - 1) / 2));
    OK(MPI_Win_free(&win));
}

static void booleans(void)
{
    bool *base, yes = true, old = false;
    MPI_Win win;
    OK(MPI_Win_allocate(64, sizeof(bool), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    std::fill(base, base + 64, false);
    settle(win);
    OK(MPI_Win_lock_all(0, win));
    OK(MPI_Fetch_and_op(&yes, &old, MPI_CXX_BOOL, right(), 5, MPI_LOR, win));
    OK(MPI_Win_unlock_all(win));
    settle(win);
    CHECK(base[5]);
    CHECK(!base[4]);
    OK(MPI_Win_free(&win));
}

static const struct test cases[] = {
    CASE(scope), CASE(vector_as_window), CASE(complex_numbers), CASE(booleans),
};

MAIN(cases)
