#include "cli/bench/bench_text.h"

namespace kvick::cli {

std::string_view bench_text() {
  return R"(Minutes of the harbour committee, third of March.

Present: Mrs Adler (chair), Mr Bonnet, Mrs Castellan, Mr Dorn, Mrs Eide (minutes). Mr Falk sent his regrets.

1. The breakwater. Mr Dorn reported on the state of the breakwater. The winter storms had moved eleven of the large
stones at its northern end, and the light at its head had been out for two nights. The divers had looked at the
foundation and found it sound. To put the eleven stones back would take a floating crane for four days. The floating
crane costs nine hundred a day, so that the work on the breakwater would come to three thousand six hundred, and the
repair of the light at its head to two hundred and fifty. Mrs Castellan asked whether the work could wait until the
summer, when the floating crane is cheaper. Mr Dorn answered that the floating crane is cheaper in the summer, at seven
hundred a day, but that another storm would move more stones, and that the light at the head of the breakwater could
not wait in any case. The committee decided to repair the light at the head of the breakwater at once, and to ask for
the floating crane for the first week of May, at seven hundred and fifty a day.

2. Berths. Mrs Castellan reported on the berths. Of the sixty-four berths, fifty-one are let for the year: twenty-two
to fishing boats, nineteen to sailing boats, six to the ferry company and four to the pilots. Thirteen berths are free.
There are twenty names on the waiting list for berths of more than twelve metres, of which only two are free. Mr Bonnet
proposed to make three berths of more than twelve metres out of four of the shorter ones, since eleven of the thirteen
free berths are shorter ones. Mrs Castellan will ask the ferry company and the pilots whether they would exchange their
berths, and report on the berths again in April.

3. Fees. Mr Bonnet reported on the fees. In the last year the harbour took forty-one thousand in fees for berths, nine
thousand in fees for landing, and three thousand in fees for water and power. The fees for berths have been the same for
four years. Mr Bonnet proposed to raise the fees for berths by five in the hundred and to leave the fees for landing
and the fees for water and power as they are. Mrs Adler asked what the neighbouring harbours take. Mr Bonnet answered
that the fees for berths are higher in both of the neighbouring harbours, by eight and by eleven in the hundred, and
that the fees for landing are about the same. The committee decided to raise the fees for berths by five in the hundred
from the first of May on, and to leave the fees for landing and the fees for water and power as they are.

4. Next meeting. The committee meets again on the seventh of April. Mr Dorn will report on the breakwater, Mrs Castellan
will report on the berths, and Mr Bonnet will report on the fees.

Summary of the decisions:
1. The breakwater:)";
}

}  // namespace kvick::cli
