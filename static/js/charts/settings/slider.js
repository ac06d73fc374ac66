// Pure: a slider that goes in hundredths up to 0.99 and in thousandths beyond: where smoothing is strong, little does
// much.
const FINE_FROM = 99; // positions

export const shares = {
  last: FINE_FROM + 9,
  amountOf: (position) => (position <= FINE_FROM ? position / 100 : (990 + position - FINE_FROM) / 1000),
  positionOf: (amount) => (amount <= 0.99 ? Math.round(amount * 100) : FINE_FROM + Math.round(amount * 1000) - 990),
};
