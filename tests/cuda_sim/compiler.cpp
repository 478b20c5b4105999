// A libnvrtc for machines without a GPU: g++ compiles CUDA C for the simulated
// device. What it gives as a CUBIN names the shared library it made.
//
// Environment: KILN_CUDA_SIM_CACHE, a folder for those libraries; else the
// folder `cache` beside this library.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <sstream>
#include <string>

namespace {
constexpr int OK = 0, COMPILATION = 6;

struct Program {
    std::string source, log, image;
};

// The folder of this library, where the simulated driver and headers are too.
std::string folder() {
    Dl_info info;
    dladdr((void*)&folder, &info);
    const std::string path = info.dli_fname;
    const size_t end = path.rfind('/');
    return end == std::string::npos ? "." : path.substr(0, end);
}

uint64_t hash(const std::string& text) {
    uint64_t value = 0xcbf29ce484222325ull;
    for (unsigned char c : text) value = (value ^ c) * 0x100000001b3ull;
    return value;
}

std::string contents(const std::string& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

bool is_there(const std::string& path) { return access(path.c_str(), R_OK) == 0; }

// The text after what g++ needs to know. The prelude, where the text begins
// with the one that this library was built with, is there compiled.
std::string with_header(const std::string& home, const std::string& source) {
    const std::string prelude = contents(home + "/prelude.cuh");
    if (!prelude.empty() && source.compare(0, prelude.size(), prelude) == 0)
        return "#include \"before.h\"\n#line 1 \"kernel.cu\"\n" + source.substr(prelude.size());
    return "#include \"device.h\"\n#line 1 \"kernel.cu\"\n" + source;
}

int compile(Program& program) {
    static std::atomic<int> number;
    const std::string home = folder();
    const char* wanted = getenv("KILN_CUDA_SIM_CACHE");
    const std::string cache = wanted ? wanted : home + "/cache";
    mkdir(cache.c_str(), 0777);
    const std::string text = with_header(home, program.source) + "\nCUDA_SIM_EXPORT(kiln_kernel)\n";
    char name[64];
    const std::string headers = contents(home + "/device.h") + contents(home + "/prelude.cuh");
    snprintf(name, sizeof name, "/%016llx-%zu", (unsigned long long)hash(text + headers), text.size());
    const std::string library = cache + name + ".so";
    if (!is_there(library)) {
        const std::string own = cache + name + "-" + std::to_string(getpid()) + "-" + std::to_string(number++);
        std::ofstream(own + ".cpp") << text;
        // The simulated driver brings the libraries of C.
        const std::string command = "exec g++ " KERNEL_FLAGS " -pipe -shared -nostdlib -I'" + home + "' '" + own + ".cpp' -o '" +
                                    own + ".so' -L'" + home + "' -l:libcuda.so.1 2> '" + own + ".log'";
        const int failed = system(command.c_str());
        program.log = contents(own + ".log");
        if (!failed) rename((own + ".so").c_str(), library.c_str());
        unlink((own + ".cpp").c_str());
        unlink((own + ".log").c_str());
        if (failed) return COMPILATION;
    }
    program.image = "CUDA_SIM:" + library;
    return OK;
}
}  // namespace

extern "C" {
int nvrtcVersion(int* major, int* minor) { return *major = 13, *minor = 0, OK; }
int nvrtcCreateProgram(Program** program, const char* source, const char*, int, const char* const*, const char* const*) {
    *program = new Program{source, "", ""};
    return OK;
}
int nvrtcCompileProgram(Program* program, int, const char* const*) { return compile(*program); }
int nvrtcDestroyProgram(Program** program) {
    delete *program;
    *program = nullptr;
    return OK;
}
int nvrtcGetCUBINSize(Program* program, size_t* bytes) { return *bytes = program->image.size() + 1, OK; }
int nvrtcGetCUBIN(Program* program, char* image) { return memcpy(image, program->image.c_str(), program->image.size() + 1), OK; }
int nvrtcGetProgramLogSize(Program* program, size_t* bytes) { return *bytes = program->log.size() + 1, OK; }
int nvrtcGetProgramLog(Program* program, char* log) { return memcpy(log, program->log.c_str(), program->log.size() + 1), OK; }
}
