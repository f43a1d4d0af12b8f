// A kernel that tunes its block size while it works, in five lines: those that call a function of the tuner.
#include <chrono>
#include <cstdio>
#include <vector>

#include "online_tuner.h"

static std::vector<float> numbers(1 << 16, 1.0f);

static void launch(std::size_t block)
{
    for (std::size_t begin = 0; begin < numbers.size(); begin += block)
        for (std::size_t i = begin; i < begin + block && i < numbers.size(); i++) numbers[i] = 0.5f * numbers[i] + 1.0f;
}

int main()
{
    const int64_t blocks[] = {1, 64, 4096};
    const tuner_parameter parameters[] = {{blocks, 3, 64}};
    tuner_kernel *kernel = tuner_new(parameters, 1, nullptr, nullptr);
    std::size_t block = 0;
    for (int i = 0; i < 2000; i++) {
        tuner_begin(kernel);
        const auto begin = std::chrono::steady_clock::now();
        block = static_cast<std::size_t>(tuner_param(kernel, 0));
        launch(block);
        const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
        tuner_end(kernel, time.count());
    }
    std::printf("block=%d\n", static_cast<int>(block));
    tuner_free(kernel);
}
