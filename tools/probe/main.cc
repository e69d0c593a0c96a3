// The program `coppice-probe`.

#include "tools/probe/command_line.h"

int main(int argument_count, char** arguments) {
  return coppice::RunProbe(argument_count, arguments, {});
}
