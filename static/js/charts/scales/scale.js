// The scale of one axis: values to shares of its length, from 0 to 1, and back.
export class Scale {
  constructor(isLog) {
    this.isLog = isLog;
    this.set(isLog ? 1 : 0, isLog ? 10 : 1);
  }

  // low and high are the ends as they are spread over the length: on a logarithmic axis their logarithms.
  set(min, max) {
    this.min = min;
    this.max = max;
    [this.low, this.high] = this.isLog ? [Math.log10(min), Math.log10(max)] : [min, max];
  }

  shareOf(value) {
    return ((this.isLog ? Math.log10(value) : value) - this.low) / (this.high - this.low);
  }

  valueAt(share) {
    const at = this.low + share * (this.high - this.low);
    return this.isLog ? 10 ** at : at;
  }
}
